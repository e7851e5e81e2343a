import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { rotateKeys } from '../../src/operator/platform.ts'
import { must, openFactorService } from '../support/second-factors.ts'

/** A new master key replaces the current one while second factors are in use (ASVS 11.2.2, 13.3.4). */

const [OLD, NEW] = ['old', 'new'].map((id) => `${id}:${randomBytes(32).toString('base64')}`)
/** The first instance still uses the old key, and the second one the new key. Both know both. */
const service = await openFactorService({
  instances: 2,
  env: { MASTER_KEYS: `${OLD},${NEW}` },
  envs: [{}, { MASTER_KEYS: `${NEW},${OLD}` }],
})
const admin = await service.addCompany()

test('challenges, codes, and secrets work on instances with either master key', async () => {
  const person = await service.personWithTotp(admin)
  for (const at of [0, 1]) {
    const { challenge } = await service.begin(person, { at })
    await must(service.complete({ challenge, ...service.totpOf(person) }, { at: 1 - at }))
    service.clock.advance(30)
    const again = await service.begin(person, { at })
    const given = { challenge: again.challenge, method: 'recovery_code', code: person.recoveryCodes?.[at] }
    await must(service.complete(given, { at: 1 - at }))
  }
  const passkey = await service.personWithPasskey(admin)
  for (const from of [0, 1]) await must(service.signInByPasskey(passkey, { from, at: 1 - from }))
})

test('a rotation reseals the secrets of authenticator apps', async () => {
  const person = await service.personWithTotp(admin)
  const stored = service.db.selectFrom('second_factors').where('factor_id', '=', person.id)
  const sealed = async () => (await stored.select('sealed_secret').executeTakeFirstOrThrow()).sealed_secret
  expect(await sealed()).toMatch(/^old\./)
  const { masterKeys } = loadConfig({ MASTER_KEYS: `${NEW},${OLD}` })
  const context = { db: service.db, sealer: createSealer(masterKeys, randomBytes), system: service.clock }
  expect((await rotateKeys(context)).resealedFactors).toBeGreaterThan(0)
  expect(await sealed()).toMatch(/^new\./)
  expect((await rotateKeys(context)).resealedFactors).toBe(0)
  expect((await service.signInByTotp(person, { at: 1 })).status).toBe(200)
})
