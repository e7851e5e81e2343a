import { fstatSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { createIsBreached } from '../../src/crypto/breached-passwords.ts'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { generatePassword } from '../../src/crypto/password-policy.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { migrate, pendingMigrations } from '../../src/database/migrate.ts'
import { open, openForMigrations } from '../../src/startup.ts'
import { realSystem } from '../../src/system.ts'
import { UsageError } from './usage.ts'

/** What commands work with: the database, the keys, and a password. */

export type Context = Awaited<ReturnType<typeof openContext>>

/** @throws UsageError if migrations are pending */
export async function openContext() {
  const system = realSystem
  const { config, connection } = await open(process.env, system)
  const { maintenance: db, close } = connection
  try {
    const pending = config.databaseUrl ? await pendingMigrations(db) : []
    if (pending.length > 0) {
      throw new UsageError(`the database lacks ${pending.join(', ')}: run \`npm run admin -- migrate\` first`)
    }
    await migrate(db)
    const sealer = createSealer(config.masterKeys, system.randomBytes)
    const isBreached = createIsBreached(config.breachedPasswordsUrl, (cause) =>
      console.error(
        `The service of breached passwords gives no answer (${cause}), so the password passes without it.`,
      ),
    )
    const hasher = await createPasswordHasher()
    return { db, config, close, system, sealer, isBreached, hasher }
  } catch (error) {
    await close()
    throw error
  }
}

/** Runs the pending migrations, for which the database is enough. */
export async function migrateAlone(): Promise<{ migrated: string[] }> {
  const { maintenance, close } = await openForMigrations(process.env, realSystem)
  try {
    return { migrated: await migrate(maintenance) }
  } finally {
    await close()
  }
}

/** The password from standard input, or a generated one, which is printed. */
export async function choosePassword(): Promise<{ password: string; shown: { password?: string } }> {
  const input = fstatSync(0)
  const piped = input.isFIFO() || input.isFile() || input.isSocket()
  if (piped && !input.isFile()) console.error('Reading the password from standard input, to its end.')
  const given = piped ? (await text(process.stdin)).replace(/\r?\n$/, '') : ''
  if (given !== '') return { password: given, shown: {} }
  const password = generatePassword(realSystem.randomBytes)
  return { password, shown: { password } }
}
