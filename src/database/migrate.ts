import { readdir } from 'node:fs/promises'
import type { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { codeOf } from './faults.ts'
import type { Database } from './schema.ts'

/** How often the wait for another instance's migrations may meet the timeout of a statement: two minutes. */
const MAX_WAITS = 24

const folder = new URL('../../migrations/', import.meta.url)

function migrator(db: Kysely<Database>): Migrator {
  return new Migrator({
    db,
    provider: {
      async getMigrations() {
        const files = (await readdir(folder)).filter((file) => file.endsWith('.ts'))
        const entries = files.map(async (file): Promise<[string, Migration]> => {
          const { up }: Migration = await import(new URL(file, folder).href)
          return [file.slice(0, -'.ts'.length), { up }]
        })
        return Object.fromEntries(await Promise.all(entries))
      },
    },
  })
}

/** The names of the migrations that this database lacks. Reads only; one that is ahead of us lacks none. */
export async function pendingMigrations(db: Kysely<Database>): Promise<string[]> {
  const all = await migrator(db).getMigrations()
  return all.filter(({ executedAt }) => !executedAt).map(({ name }) => name)
}

/**
 * Brings the database up to date. Safe to call from many instances at once: the migrator takes an advisory
 * lock, and each migration is a transaction. Returns the names of those that ran here.
 */
export async function migrate(db: Kysely<Database>): Promise<string[]> {
  for (let waits = 1; ; waits += 1) {
    // A current database needs no lock and no right to change tables.
    if ((await pendingMigrations(db)).length === 0) return []
    const { error, results } = await migrator(db).migrateToLatest()
    if (!error) return (results ?? []).map(({ migrationName }) => migrationName)
    const isStillLocked = results === undefined && /^(57014|55P03)$/.test(codeOf(error) ?? '')
    if (!isStillLocked || waits === MAX_WAITS) throw error
  }
}
