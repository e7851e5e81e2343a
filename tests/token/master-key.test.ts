import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { rotateKeys } from '../../src/operator/platform.ts'
import { resealSecretsAcrossCompanies } from '../../src/signing-secret/service.ts'
import { openKeyRing } from '../../src/token/keys.ts'
import { decode, partsOf } from '../support/forge.ts'
import { must } from '../support/second-factors.ts'
import { openTestService } from '../support/test-service.ts'

/** A new master key replaces the current one while two instances run (ASVS 11.2.2, 13.3.4). */

const [OLD, NEW] = ['old', 'new'].map((id) => `${id}:${randomBytes(32).toString('base64')}`)
const sealerOf = (...keys: (string | undefined)[]) =>
  createSealer(loadConfig({ MASTER_KEYS: keys.join() }).masterKeys, randomBytes)
const kidOf = (token: string) => decode(partsOf(token)[0])['kid']

/** The first instance still uses the old key, and the second one the new key. Both know both. */
const service = await openTestService({
  instances: 2,
  envs: [{ MASTER_KEYS: `${OLD},${NEW}` }, { MASTER_KEYS: `${NEW},${OLD}` }],
})
const { db, clock } = service
const admin = await service.addCompany()

async function storedKeys(): Promise<string[]> {
  const rows = await db.selectFrom('signing_keys').select('sealed_private_key as sealed').execute()
  return rows.map(({ sealed }) => sealed)
}
const storedSecret = () => db.selectFrom('signing_secrets').selectAll().executeTakeFirstOrThrow()

test.for([
  { from: 0, to: 1, kid: 'old' },
  { from: 1, to: 0, kid: 'new' },
])('tokens under the $kid master key work at the other instance (RFC 9110, 9.2.2)', async (row) => {
  const { from, to, kid } = row
  const { accessToken, refreshToken } = await service.loginAs(admin, { at: from })
  expect(kidOf(refreshToken)).toBe(kid)
  expect((await service.getSession({ token: accessToken, at: to })).status).toBe(200)
  await service.refresh(refreshToken, { key: 'retry', at: from })
  // The other instance repeats a lost response.
  const repeated = await must(service.refresh(refreshToken, { key: 'retry', at: to }))
  expect(kidOf(repeated.refreshToken)).not.toBe(kid)
  expect((await service.refresh(repeated.refreshToken, { at: from })).status).toBe(200)
  expect((await service.refresh(refreshToken, { at: to })).body.code).toBe('refresh_token_reused')
})

test('secrets under the old master key open, and are resealed', async () => {
  // Seals the newest key and the signing secret under the old master key, whichever instance was first.
  await rotateKeys({ db, sealer: sealerOf(OLD, NEW), system: clock })
  const secret = await service.newSecret(admin)
  const { sealed_secret: before } = await storedSecret()
  for (const sealed of [...(await storedKeys()), before]) expect(sealed).toMatch(/^old\./)
  const event = { type: 'order.created', data: {} }
  expect((await service.send(admin.companyId, secret, event, { at: 1 })).status).toBe(202)
  const { accessToken } = await service.loginAs(admin)

  const issuer = `${service.config.publicUrl}/api`
  const options = { db, system: clock, issuer, accessTokenTtlSeconds: 900, onReloadError() {} }
  await expect(openKeyRing({ ...options, sealer: sealerOf(NEW) })).rejects.toThrow('master key "old"')

  const rotation = await rotateKeys({ db, sealer: sealerOf(NEW, OLD), system: clock })
  expect(rotation.resealedSecrets).toBe(1)
  expect(await resealSecretsAcrossCompanies(db, sealerOf(NEW, OLD))).toBe(0)
  const after = await storedSecret()
  for (const sealed of [...(await storedKeys()), after.sealed_secret]) expect(sealed).toMatch(/^new\./)

  // The old key is no longer needed, and nothing else has changed.
  const ring = await openKeyRing({ ...options, sealer: sealerOf(NEW) })
  const key = await ring.byHeader(partsOf(accessToken)[0], clock.now())
  expect(key?.verify(accessToken)).toEqual(decode(partsOf(accessToken)[1]))
  const context = `signing-secret:${admin.companyId}:${after.version}`
  const opened = sealerOf(NEW).open(after.sealed_secret, context)
  expect(`whsec_${opened.toString('base64')}`).toBe(secret)
  for (const at of [0, 1]) {
    expect((await service.send(admin.companyId, secret, event, { at })).status).toBe(202)
    expect((await service.getSession({ token: accessToken, at })).status).toBe(200)
  }
})

test('a rotation with a wrong master key changes nothing', async () => {
  await rotateKeys({ db, sealer: sealerOf(OLD, NEW), system: clock })
  const impostor = NEW?.replace('new:', 'old:')
  const before = await storedKeys()
  const rotation = rotateKeys({ db, sealer: sealerOf(impostor), system: clock })
  await expect(rotation).rejects.toThrow('cannot be decrypted with the master key "old" in MASTER_KEYS')
  expect(await storedKeys()).toEqual(before)
})
