import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { createSealer } from '../../src/crypto/sealing.ts'
import { resealSecrets } from '../../src/signing-secret/service.ts'
import { openKeyRing, rotateKeys } from '../../src/token/key-ring.ts'
import { openHouse } from '../support/house.ts'
import { decode, partsOf } from './forge.ts'

/** A master key gives way to another while two instances run: ASVS 11.2.2, 13.3.4. */

const [OLD, NEW] = ['old', 'new'].map((id) => `${id}:${randomBytes(32).toString('base64')}`)
const sealerOf = (...keys: (string | undefined)[]) =>
  createSealer(loadConfig({ MASTER_KEYS: keys.join() }).masterKeys, randomBytes)
const kidOf = (token: string) => decode(partsOf(token)[0])['kid']

/** The first instance still uses the old key, the second the new one; both know both. */
const openDuringChange = () =>
  openHouse({ instances: 2, envs: [{ MASTER_KEYS: `${OLD},${NEW}` }, { MASTER_KEYS: `${NEW},${OLD}` }] })

const storedKeys = async ({ db }: Awaited<ReturnType<typeof openHouse>>) =>
  (await db.selectFrom('signing_keys').select('sealed_private_key as sealed').execute()).map(
    ({ sealed }) => sealed,
  )

describe('while a master key is changed', () => {
  test.each([
    { from: 0, to: 1, kid: 'old' },
    { from: 1, to: 0, kid: 'new' },
  ])('tokens made under the $kid one pass at the other instance', async ({ from, to, kid }) => {
    const house = await openDuringChange()
    const { accessToken, refreshToken } = await house.loginAs(await house.addCompany(), { at: from })
    expect(kidOf(refreshToken)).toBe(kid)
    expect((await house.getSession({ token: accessToken, at: to })).status).toBe(200)
    const { status, body } = await house.refresh(refreshToken, { at: to })
    expect(status).toBe(200)
    expect(kidOf(body.refreshToken)).not.toBe(kid)
    expect((await house.refresh(body.refreshToken, { at: from })).status).toBe(200)
    expect((await house.refresh(refreshToken, { at: to })).body.code).toBe('refresh_token_reused')
  })

  test('a lost answer can be had again from the other instance (RFC 9110, section 9.2.2)', async () => {
    const house = await openDuringChange()
    const { refreshToken } = await house.loginAs(await house.addCompany(), { at: 0 })
    await house.refresh(refreshToken, { key: 'retry', at: 0 })
    const { status, body } = await house.refresh(refreshToken, { key: 'retry', at: 1 })
    expect(status).toBe(200)
    expect((await house.refresh(body.refreshToken, { at: 0 })).status).toBe(200)
  })

  test('what the old one sealed opens, and is sealed anew with the new one', async () => {
    const house = await openDuringChange()
    const { db, clock } = house
    const admin = await house.addCompany()
    // Newest key and signing secret sealed under the old key, whichever instance was first here.
    await rotateKeys({ db, sealer: sealerOf(OLD, NEW), system: clock })
    const secret = await house.newSecret(admin)
    const { sealed_secret: before } = await db
      .selectFrom('signing_secrets')
      .selectAll()
      .executeTakeFirstOrThrow()
    for (const sealed of [...(await storedKeys(house)), before]) expect(sealed).toMatch(/^old\./)
    const event = { type: 'order.created', data: {} }
    expect((await house.send(admin.companyId, secret, event, { at: 1 })).status).toBe(202)
    const { accessToken } = await house.loginAs(admin)

    const options = {
      db,
      system: clock,
      issuer: `${house.config.publicUrl}/api`,
      accessTokenTtlSeconds: 900,
      onReloadError() {},
    }
    await expect(openKeyRing({ ...options, sealer: sealerOf(NEW) })).rejects.toThrow('master key "old"')

    await rotateKeys({ db, sealer: sealerOf(NEW, OLD), system: clock })
    expect(await resealSecrets({ db, sealer: sealerOf(NEW, OLD) })).toBe(1)
    expect(await resealSecrets({ db, sealer: sealerOf(NEW, OLD) })).toBe(0)
    const after = await db.selectFrom('signing_secrets').selectAll().executeTakeFirstOrThrow()
    for (const sealed of [...(await storedKeys(house)), after.sealed_secret]) expect(sealed).toMatch(/^new\./)

    // The old one is no longer needed, and everything is what it was.
    const ring = await openKeyRing({ ...options, sealer: sealerOf(NEW) })
    const key = await ring.byHeader(partsOf(accessToken)[0], clock.now())
    expect(key?.verify(accessToken)).toEqual(decode(partsOf(accessToken)[1]))
    const context = `signing-secret:${admin.companyId}:${after.version}`
    const opened = sealerOf(NEW).open(after.sealed_secret, context)
    expect(`whsec_${opened.toString('base64')}`).toBe(secret)
    for (const at of [0, 1]) {
      expect((await house.send(admin.companyId, secret, event, { at })).status).toBe(202)
      expect((await house.getSession({ token: accessToken, at })).status).toBe(200)
    }
  })
})

test('keys are not rotated with another master key under the same id, and the message says so', async () => {
  const house = await openHouse({ env: { MASTER_KEYS: String(OLD) } })
  const impostor = NEW?.replace('new:', 'old:')
  const before = await storedKeys(house)
  const rotation = rotateKeys({ db: house.db, sealer: sealerOf(impostor), system: house.clock })
  await expect(rotation).rejects.toThrow('does not open with the master key "old" of MASTER_KEYS')
  expect(await storedKeys(house)).toEqual(before)
})

test('a refresh token under a master key that is no longer configured is refused (ASVS 9.1.3)', async () => {
  const house = await openDuringChange()
  const withoutOld = await openHouse({ env: { MASTER_KEYS: String(NEW) } })
  const { refreshToken, session } = await house.loginAs(await house.addCompany(), { at: 0 })
  const verify = ({ tokens }: (typeof house.apps)[number]) =>
    tokens.verifyRefresh(refreshToken, house.clock.now())
  for (const app of house.apps) expect(verify(app).sid).toBe(session.id)
  for (const app of withoutOld.apps) {
    expect(() => verify(app)).toThrow(expect.objectContaining({ code: 'invalid_token' }))
  }
})
