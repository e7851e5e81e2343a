import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { codeOf } from './faults.ts'
import { buildIndexes } from './indexes.ts'
import type { Database } from './schema.ts'

/** 5 s each, so two minutes in total for migrations by another instance. */
const MAX_WAITS = 24

const folder = new URL('../../migrations/', import.meta.url)

function migrator(db: Kysely<Database>): Migrator {
  return new Migrator({
    db,
    provider: {
      async getMigrations() {
        const migrations: Record<string, Migration> = {}
        for (const file of await readdir(folder)) {
          if (file.endsWith('.ts'))
            migrations[file.slice(0, -'.ts'.length)] = await import(new URL(file, folder).href)
        }
        return migrations
      },
    },
  })
}

export class MigrationOrderError extends Error {
  override name = 'MigrationOrderError'

  constructor(reason: string) {
    super(
      `The database was migrated by a different version (${reason}). Start the version that migrated it last, or use a different database: set DATABASE_URL, or DATA_DIR for the embedded one.`,
    )
  }
}

export class EncodingError extends Error {
  override name = 'EncodingError'

  constructor(encoding: string) {
    super(
      `The database's encoding is ${encoding}, which cannot store every text. Create it with: create database … encoding 'UTF8' template template0`,
    )
  }
}

/** Kysely reports this only as text, which ends with advice for authors of migrations. */
const OUT_OF_ORDER = /^corrupted migrations: (?<reason>[^.]+)/

export async function pendingMigrations(db: Kysely<Database>): Promise<string[]> {
  const all = await migrator(db).getMigrations()
  return all.filter(({ executedAt }) => !executedAt).map(({ name }) => name)
}

/** Safe in several instances. Returns the names of new migrations. @throws EncodingError, MigrationOrderError */
export async function migrate(
  db: Kysely<Database>,
  onWait: (text: string) => void = () => {},
): Promise<string[]> {
  const { encoding } = await db
    .selectNoFrom(({ fn, val }) => fn<string>('current_setting', [val('server_encoding')]).as('encoding'))
    .executeTakeFirstOrThrow()
  if (encoding !== 'UTF8') throw new EncodingError(encoding)
  const names = await migrateTables(db, onWait)
  await buildIndexes(db, onWait)
  await fillAuditDays(db)
  await reserveTables(db)
  return names
}

/** deploy/roles.sql has the function, and lets only the owner of the tables call it. */
async function reserveTables(db: Kysely<Database>): Promise<void> {
  await sql`do $$ begin
    if has_function_privilege(to_regprocedure('reserve_tables()'), 'execute') then
      perform reserve_tables();
    end if;
  end $$`.execute(db)
}

/** The lock that fill_audit_days() takes. */
const FILLING_LOCK = 1_903_211_787

/** Migration 0027 leaves this for later. The function drops itself. Other instances poll, because lock_timeout ends waits. */
export async function fillAuditDays(db: Kysely<Database>): Promise<void> {
  const isLeft = async (one: Kysely<Database>) => {
    const { rows } = await sql`select where to_regprocedure('fill_audit_days()') is not null`.execute(one)
    return rows.length > 0
  }
  while (await isLeft(db)) {
    const isOurs = await db.transaction().execute(async (tx) => {
      const { isOurs } = await tx
        .selectNoFrom(({ fn, lit }) =>
          fn<boolean>('pg_try_advisory_xact_lock', [lit(FILLING_LOCK)]).as('isOurs'),
        )
        .executeTakeFirstOrThrow()
      if (isOurs && (await isLeft(tx))) await sql`select fill_audit_days()`.execute(tx)
      return isOurs
    })
    if (!isOurs) await sleep(500)
  }
}

async function migrateTables(db: Kysely<Database>, onWait: (text: string) => void): Promise<string[]> {
  for (let waits = 1; ; waits += 1) {
    // A current database needs neither the lock nor permission to change tables.
    if ((await pendingMigrations(db)).length === 0) return []
    const { error, results } = await migrator(db).migrateToLatest()
    if (!error) return (results ?? []).map(({ migrationName }) => migrationName)
    const { reason } = OUT_OF_ORDER.exec(error instanceof Error ? error.message : '')?.groups ?? {}
    if (reason !== undefined) throw new MigrationOrderError(reason)
    const code = codeOf(error)
    // A statement timeout is a wait for the lock if no migration had started.
    const isWait = code === '55P03' || (code === '57014' && results === undefined)
    if (!isWait || waits === MAX_WAITS) throw error
    onWait(
      'Waiting to migrate the database: another instance is migrating it, or a transaction locks a table.',
    )
  }
}
