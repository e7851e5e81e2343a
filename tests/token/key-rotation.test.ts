import { beforeEach, describe, expect, test } from 'vitest'
import { createSealer } from '../../src/crypto/sealing.ts'
import { retireKey, rotateKeys } from '../../src/operator/platform.ts'
import { PUBLISH_AHEAD_SECONDS } from '../../src/token/key-rotation.ts'
import { generateKey } from '../../src/token/keys.ts'
import { decode, forge, openForge, partsOf } from '../support/forge.ts'
import { type Clock, createClock, openTestService, times } from '../support/test-service.ts'

/** A change of keys must not break a token (ASVS 11.2.2, 13.3.4). */

/** From a successor's first signature until the old key's last token expires: its lifetime and the clocks' difference. */
const LAST_TOKEN_SECONDS = 900 + 120
/** The longest time until an instance sees a change. */
const RELOAD_SECONDS = 61

const kidOf = (token: string) => String(decode(partsOf(token)[0])['kid'])

async function openRotatingService(clocks: Clock[] = []) {
  const service = await openTestService({ instances: 2, clocks })
  const { db, config, clock } = service
  const admin = await service.addCompany()
  const context = { db, sealer: createSealer(config.masterKeys, clock.randomBytes), system: clock }
  const both = [0, 1]

  async function publishedAt(at: number): Promise<string[]> {
    const { body } = await service.call('/.well-known/jwks.json', { method: 'GET', at })
    return body.keys.map(({ kid }: { kid: string }) => kid)
  }

  async function published(): Promise<string[]> {
    const [keys = [], others] = await Promise.all(both.map(publishedAt))
    expect(others).toEqual(keys)
    return keys
  }

  /** Signs in at an instance, and checks that both accept the token. Returns it with the ID of its key. */
  async function issueAt(at: number) {
    const { accessToken } = await service.loginAs(admin, { at })
    for (const other of both)
      expect((await service.getSession({ token: accessToken, at: other })).status).toBe(200)
    return { token: String(accessToken), kid: kidOf(accessToken) }
  }

  async function signing(): Promise<string> {
    const [key = '', other] = await Promise.all(both.map(async (at) => (await issueAt(at)).kid))
    expect(other).toBe(key)
    return key
  }

  const rotate = () => rotateKeys(context)
  const retire = (keyId: string) => retireKey(context, keyId)
  return { service, admin, publishedAt, published, issueAt, signing, rotate, retire }
}

const { service, admin, published, issueAt, signing, rotate, retire } = await openRotatingService()
const keysAtStart = await published()

/** Waits until only the newest key is left. */
beforeEach(() => service.clock.advance(PUBLISH_AHEAD_SECONDS + LAST_TOKEN_SECONDS))

test('instances that start together on a new database share one key (ASVS 15.4.2)', () => {
  expect(keysAtStart).toHaveLength(1)
})

test('a key rotation reaches all instances without breaking a token (ASVS 11.2.2)', async () => {
  const old = await signing()

  const { keyId, signsFrom } = await rotate()
  expect(signsFrom.getTime()).toBe(service.clock.now() + PUBLISH_AHEAD_SECONDS * 1000)

  // It is published, so services that verify offline know it, but it is not used yet.
  service.clock.advance(RELOAD_SECONDS)
  expect(await published()).toEqual([old, keyId])
  expect(await signing()).toBe(old)
  service.clock.advance(PUBLISH_AHEAD_SECONDS - RELOAD_SECONDS - 1)
  const last = await issueAt(0)
  expect(last.kid).toBe(old)
  const expectLast = async (expected: object) => {
    for (const at of [0, 1])
      expect(await service.getSession({ token: last.token, at })).toMatchObject(expected)
  }

  // It is used, and the old key's tokens stay valid until they expire.
  service.clock.advance(1)
  expect(await signing()).toBe(keyId)
  service.clock.advance(898)
  await expectLast({ status: 200 })
  service.clock.advance(1)
  await expectLast({ status: 401 })

  // Withdrawn once even a late clock's last token has expired. The old key's tokens are still reported as expired.
  service.clock.advance(LAST_TOKEN_SECONDS - 900)
  expect(await published()).toEqual([old, keyId])
  service.clock.advance(1)
  expect(await published()).toEqual([keyId])
  await expectLast({ body: { code: 'token_expired' } })
  expect(await signing()).toBe(keyId)
})

test('a key rotation can start before the previous one has ended', async () => {
  const first = await signing()
  const second = await rotate()
  service.clock.advance(300)
  const third = await rotate()
  service.clock.advance(300)
  expect(await signing()).toBe(second.keyId)
  service.clock.advance(300)
  expect(await signing()).toBe(third.keyId)
  expect(await published()).toEqual([first, second.keyId, third.keyId])
  service.clock.advance(LAST_TOKEN_SECONDS)
  expect(await published()).toEqual([third.keyId])
})

test('concurrent key rotations add only whole keys (ASVS 15.4.2)', async () => {
  const stored = service.db.selectFrom('signing_keys').select(['key_id', 'sequence']).orderBy('sequence')
  const before = await stored.execute()
  const results = await Promise.allSettled(times(3, rotate))
  const added: string[] = []
  for (const result of results) {
    if (result.status === 'fulfilled') added.push(result.value.keyId)
    else expect(String(result.reason)).toContain('another rotation ran')
  }
  expect(added).not.toEqual([])
  const after = await stored.execute()
  const idsIn = (keys: typeof after) => keys.map(({ key_id: id }) => id)
  expect(idsIn(after).toSorted()).toEqual([...idsIn(before), ...added].toSorted())
  expect(after.map(({ sequence }) => sequence)).toEqual(times(after.length, (index) => index + 1))
})

test('tokens of a retired key are rejected even before they expire (ASVS 9.1.3)', async () => {
  const { access } = await openForge(service, admin)
  const exp = Number(access.claims['exp']) + 86_400
  const token = forge(access, { payload: { ...access.claims, exp } })
  await rotate()
  service.clock.advance(PUBLISH_AHEAD_SECONDS + LAST_TOKEN_SECONDS - 1)
  expect((await service.getSession({ token })).status).toBe(200)
  service.clock.advance(1)
  expect((await service.getSession({ token })).body.code).toBe('invalid_token')
})

test('an instance that cannot read keys continues with known ones (ASVS 16.5.2)', async () => {
  const { accessToken } = await service.loginAs(admin)
  const before = await published()
  service.clock.advance(RELOAD_SECONDS)
  const rows = await service.db.selectFrom('signing_keys').select(['key_id', 'sealed_private_key']).execute()
  await service.db.updateTable('signing_keys').set({ sealed_private_key: 'unreadable' }).execute()
  expect((await service.getSession({ token: accessToken })).status).toBe(200)
  expect(await published()).toEqual(before)
  for (const { key_id: id, ...row } of rows)
    await service.db.updateTable('signing_keys').set(row).where('key_id', '=', id).execute()
  const { keyId } = await rotate()
  service.clock.advance(RELOAD_SECONDS)
  expect(await published()).toEqual([...before, keyId])
})

test('a leaked key and its tokens are revoked immediately on every instance (ASVS 11.2.2)', async () => {
  const { token, kid } = await issueAt(0)
  const { refreshToken } = await service.loginAs(admin)
  const { replacedBy } = await retire(kid)
  for (const at of [0, 1]) expect((await service.getSession({ token, at })).body.code).toBe('invalid_token')
  expect(await published()).toEqual([replacedBy])
  // The sessions remain, because a refresh returns a token of the new key.
  const { body } = await service.refresh(refreshToken)
  expect(kidOf(body.accessToken)).toBe(replacedBy)
  expect(await signing()).toBe(replacedBy)
})

test('a leaked key that does not sign yet is not replaced', async () => {
  const { token, kid } = await issueAt(0)
  const { keyId: next } = await rotate()
  expect(await retire(next)).toEqual({ keyId: next, replacedBy: null })
  service.clock.advance(PUBLISH_AHEAD_SECONDS + 1)
  expect((await issueAt(0)).kid).toBe(kid)
  expect((await service.getSession({ token })).status).toBe(200)
  expect(await published()).toEqual([kid])
})

describe('instances with clocks a minute late and early', async () => {
  const [LATE, EARLY] = [0, 1]
  const [late, early] = [createClock(), createClock()]
  late.advance(-60)
  early.advance(60)
  const { service, publishedAt, issueAt, rotate, retire } = await openRotatingService([late, early])
  const advance = (seconds: number) => {
    for (const clock of [service.clock, late, early]) clock.advance(seconds)
  }

  test("a leaked key is replaced even if the instance's clock is late", async () => {
    const { kid } = await issueAt(EARLY)
    // After this time, the key signs for the operator too, even if the early instance created it.
    advance(66)
    const { replacedBy } = await retire(kid)
    expect((await issueAt(LATE)).kid).toBe(replacedBy)
  })

  test('a key rotation breaks no token if clocks differ (ASVS 9.2.1)', async () => {
    const { keyId } = await rotate()
    advance(PUBLISH_AHEAD_SECONDS)
    expect((await issueAt(EARLY)).kid).toBe(keyId)
    // The late instance signs with the old key for another minute.
    advance(59)
    const last = await issueAt(LATE)
    expect(last.kid).not.toBe(keyId)
    advance(779)
    expect((await service.getSession({ token: last.token, at: EARLY })).status).toBe(200)
    expect(await publishedAt(EARLY)).toEqual([last.kid, keyId])
  })
})

test("a key's ID never looks like a command-line option", () => {
  const system = { ...createClock(), randomBytes: (size: number) => Buffer.alloc(size, 0xff) }
  const sealer = createSealer([{ id: 'test', key: Buffer.alloc(32) }], system.randomBytes)
  const at = new Date(0)
  const { keyId } = generateKey({ sealer, system }, { sequence: 1, createdAt: at, signsFrom: at })
  expect(keyId).toMatch(/^[A-Za-z][\w-]{15}$/)
})
