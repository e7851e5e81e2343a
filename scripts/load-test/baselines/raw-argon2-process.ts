import { verify } from '@node-rs/argon2'
import { createPasswordHasher } from '../../../src/crypto/password.ts'

/** Runs in a process of its own: verifies a password for each number that it receives. */
const hasher = await createPasswordHasher()
const phc = await hasher.hash('a password')
process.on('message', async (user: number) => {
  process.send?.({ user, isMatch: await verify(phc, 'a password') })
})
process.on('disconnect', () => process.exit())
process.send?.('ready')
