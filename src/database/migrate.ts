import { readdir } from 'node:fs/promises'
import type { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { codeOf } from './faults.ts'
import { buildIndexes } from './indexes.ts'
import type { Database } from './schema.ts'

/** Each of 5 s, so two minutes in all, for the migrations of another instance. */
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

export class MigrationOrderError extends Error {
  override name = 'MigrationOrderError'

  constructor(reason: string) {
    super(
      `The database was migrated by another version (${reason}). Start the version that migrated it last, or use another database: another DATABASE_URL, or without one another DATA_DIR.`,
    )
  }
}

/** Kysely tells it only by this text, which ends with advice to authors of migrations. */
const OUT_OF_ORDER = /^corrupted migrations: (?<reason>[^.]+)/

export async function pendingMigrations(db: Kysely<Database>): Promise<string[]> {
  const all = await migrator(db).getMigrations()
  return all.filter(({ executedAt }) => !executedAt).map(({ name }) => name)
}

/** Safe in several instances. Returns the migrations that it ran. @throws MigrationOrderError */
export async function migrate(
  db: Kysely<Database>,
  onWait: (text: string) => void = () => {},
): Promise<string[]> {
  const names = await migrateTables(db, onWait)
  await buildIndexes(db, onWait)
  return names
}

/** A lock, one transaction. */
async function migrateTables(db: Kysely<Database>, onWait: (text: string) => void): Promise<string[]> {
  for (let waits = 1; ; waits += 1) {
    // A current database needs neither the lock nor permission to change tables.
    if ((await pendingMigrations(db)).length === 0) return []
    const { error, results } = await migrator(db).migrateToLatest()
    if (!error) return (results ?? []).map(({ migrationName }) => migrationName)
    const { reason } = OUT_OF_ORDER.exec(error instanceof Error ? error.message : '')?.groups ?? {}
    if (reason !== undefined) throw new MigrationOrderError(reason)
    if (!isWait(error, results) || waits === MAX_WAITS) throw error
    onWait('Waiting to migrate the database: another instance migrates it, or a transaction holds a table.')
  }
}

/** A statement that timed out counts if no migration had begun. */
function isWait(error: unknown, results: readonly unknown[] | undefined): boolean {
  const code = codeOf(error)
  return code === '55P03' || (code === '57014' && results === undefined)
}
