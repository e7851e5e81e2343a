import { createOpaque } from '../../src/crypto/opaque.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { createIsBreached } from '../../src/crypto/password-policy.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { migrate, pendingMigrations } from '../../src/database/migrate.ts'
import { open, openForMigrations } from '../../src/process/startup.ts'
import { realSystem } from '../../src/system.ts'

/** What commands work with: the database, the keys, and a password. */

/** A command that cannot run; the message says why. */
export class UsageError extends Error {}

export type Context = Awaited<ReturnType<typeof openContext>> & { operatorName: string | undefined }

/** Where a command has its settings and its input from, and where it prints. */
export interface Io {
  env: NodeJS.ProcessEnv
  /** All of standard input; empty if nothing is piped in. */
  readInput(): Promise<string>
  /** A line, or several, on standard output. */
  print(text: string): void
  /** The same on standard error; an error with its stack. */
  complain(reason: unknown): void
}

/** @throws UsageError if migrations are pending */
export async function openContext(io: Io) {
  const system = realSystem
  const { config, connection } = await open(io.env, system)
  const { maintenance: db, close } = connection
  try {
    const pending = config.databaseUrl ? await pendingMigrations(db) : []
    if (pending.length > 0) {
      throw new UsageError(`the database lacks ${pending.join(', ')}: run \`npm run admin -- migrate\` first`)
    }
    await migrate(db)
    const sealer = createSealer(config.masterKeys, system.randomBytes)
    const isBreached = createIsBreached(config.breachedPasswordsUrl, (cause) =>
      io.complain(
        `The service of breached passwords gives no answer (${cause}), so the password passes without it.`,
      ),
    )
    const hasher = await createPasswordHasher()
    const opaque = createOpaque(config.cell, system.randomBytes)
    return { db, config, close, system, sealer, opaque, isBreached, hasher, io }
  } catch (error) {
    await close()
    throw error
  }
}

/** Runs the pending migrations, for which the database is enough. */
export async function migrateAlone({ env }: Io): Promise<{ migrated: string[] }> {
  const { maintenance, close } = await openForMigrations(env, realSystem)
  try {
    return { migrated: await migrate(maintenance) }
  } finally {
    await close()
  }
}

/** From standard input; undefined if there is none. */
export async function readPassword({ io }: Pick<Context, 'io'>): Promise<string | undefined> {
  const given = (await io.readInput()).replace(/\r?\n$/, '')
  return given === '' ? undefined : given
}
