import { createOpaque } from '../../src/crypto/opaque.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { createIsBreached } from '../../src/crypto/password-policy.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { migrate, pendingMigrations } from '../../src/database/migrate.ts'
import { open, openForMigrations } from '../../src/process/startup.ts'
import { realSystem } from '../../src/system.ts'
import { addFirstKey } from '../../src/token/key-rotation.ts'

/** Opens the database and the keys for commands, and reads passwords. */

/** A mistake in the command line or the setup. */
export class UsageError extends Error {}

export type Context = Awaited<ReturnType<typeof openContext>> & { operatorName: string | undefined }

export interface Io {
  env: NodeJS.ProcessEnv
  /** All of standard input; empty if nothing is piped in. */
  readInput(): Promise<string>
  print(text: string): void
  /** Prints to standard error, an error with its stack. */
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
      throw new UsageError(
        `Migrations are pending: ${pending.join(', ')}. Run \`npm run admin -- migrate\` first.`,
      )
    }
    await migrate(db)
    const sealer = createSealer(config.masterKeys, system.randomBytes)
    const isBreached = createIsBreached(config.breachedPasswordsUrl, (cause) =>
      io.complain(
        `The password was not checked against breached passwords, because their service failed (${cause}).`,
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

export async function migrateAlone({ env }: Io): Promise<{ migrated: string[] }> {
  const { config, connection } = await openForMigrations(env, realSystem)
  const { maintenance, close } = connection
  try {
    const migrated = await migrate(maintenance)
    // On an embedded database, the service adds it, with its own master key.
    if (config.masterKeys.length > 0) {
      const sealer = createSealer(config.masterKeys, realSystem.randomBytes)
      await addFirstKey(maintenance, { sealer, system: realSystem })
    }
    return { migrated }
  } finally {
    await close()
  }
}

/** From standard input; undefined if there is none. */
export async function readPassword({ io }: Pick<Context, 'io'>): Promise<string | undefined> {
  const given = (await io.readInput()).replace(/\r?\n$/, '')
  return given === '' ? undefined : given
}
