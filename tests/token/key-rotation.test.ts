import { describe, expect, test } from 'vitest'
import { createSealer } from '../../src/crypto/sealing.ts'
import { retireKey, rotateKeys } from '../../src/operator/keys.ts'
import { PUBLISH_AHEAD_SECONDS } from '../../src/token/key-rotation.ts'
import { generateKey } from '../../src/token/keys.ts'
import { createClock, openTestService, type TestService } from '../support/test-service.ts'
import { decode, forge, openForge, partsOf } from './forge.ts'

/** Keys change without a token that fails: ASVS 11.2.2, 13.3.4. */

/** How long after a key's successor began to sign its last token has expired: its life and the clocks' difference. */
const LAST_TOKEN_SECONDS = 900 + 120
/** How long an instance may take to see a change. */
const RELOAD_SECONDS = 61

const kidOf = (token: string) => String(decode(partsOf(token)[0])['kid'])

async function publishedAt(service: TestService, at: number): Promise<string[]> {
  const { body } = await service.call('/.well-known/jwks.json', { method: 'GET', at })
  return body.keys.map(({ kid }: { kid: string }) => kid)
}

function rotate({ db, config, clock }: TestService) {
  return rotateKeys({ db, sealer: createSealer(config.masterKeys, clock.randomBytes), system: clock })
}

/** Signs in at an instance; everybody must take the token. Returns it with the key that signed it. */
async function issueAt(service: TestService, at: number, person: Parameters<TestService['loginAs']>[0]) {
  const { accessToken } = await service.loginAs(person, { at })
  for (const other of service.addresses.keys()) {
    expect((await service.getSession({ token: accessToken, at: other })).status).toBe(200)
  }
  return { token: String(accessToken), kid: kidOf(accessToken) }
}

describe('a rotation', () => {
  test('is followed by all instances, and no token fails meanwhile (ASVS 11.2.2)', async () => {
    const service = await openTestService({ instances: 2 })
    const admin = await service.addCompany()
    const both = [0, 1]
    const [old] = await publishedAt(service, 0)
    expect((await issueAt(service, 0, admin)).kid).toBe(old)

    const { keyId, signsFrom } = await rotate(service)
    expect(signsFrom.getTime()).toBe(service.clock.now() + PUBLISH_AHEAD_SECONDS * 1000)

    // Published, so that those who verify offline know it, but not yet in use.
    service.clock.advance(RELOAD_SECONDS)
    for (const at of both) {
      expect(await publishedAt(service, at)).toEqual([old, keyId])
      expect((await issueAt(service, at, admin)).kid).toBe(old)
    }
    service.clock.advance(PUBLISH_AHEAD_SECONDS - RELOAD_SECONDS - 1)
    const last = await issueAt(service, 0, admin)
    expect(last.kid).toBe(old)

    // In use, and the old one's tokens pass until their own end.
    service.clock.advance(1)
    for (const at of both) {
      expect((await issueAt(service, at, admin)).kid).toBe(keyId)
      expect((await service.getSession({ token: last.token, at })).status).toBe(200)
    }
    service.clock.advance(898)
    for (const at of both) expect((await service.getSession({ token: last.token, at })).status).toBe(200)
    service.clock.advance(1)
    for (const at of both)
      expect((await service.getSession({ token: last.token, at })).body.code).toBe('token_expired')

    // Withdrawn when even a late clock's last token has expired; what it signed has still expired.
    service.clock.advance(LAST_TOKEN_SECONDS - 900)
    for (const at of both) expect(await publishedAt(service, at)).toEqual([old, keyId])
    service.clock.advance(1)
    for (const at of both) {
      expect(await publishedAt(service, at)).toEqual([keyId])
      expect((await service.getSession({ token: last.token, at })).body.code).toBe('token_expired')
      expect((await issueAt(service, at, admin)).kid).toBe(keyId)
    }
  })

  test('harms no token where clocks differ by a minute each way (ASVS 9.2.1)', async () => {
    const clocks = [-60, 60].map((seconds) => {
      const clock = createClock()
      clock.advance(seconds)
      return clock
    })
    const service = await openTestService({ instances: 2, clocks })
    const advance = (seconds: number) => {
      for (const clock of [service.clock, ...clocks]) clock.advance(seconds)
    }
    const admin = await service.addCompany()
    const { keyId } = await rotate(service)
    advance(PUBLISH_AHEAD_SECONDS)
    const signers = [(await issueAt(service, 0, admin)).kid, (await issueAt(service, 1, admin)).kid]
    expect(signers).toEqual([expect.not.stringMatching(keyId), keyId])
    // The late one signs with the old key for another minute.
    advance(59)
    const last = await issueAt(service, 0, admin)
    expect(last.kid).not.toBe(keyId)
    advance(779)
    expect((await service.getSession({ token: last.token, at: 1 })).status).toBe(200)
    expect(await publishedAt(service, 1)).toEqual([last.kid, keyId])
  })

  test('can follow another at once: each key signs in its turn', async () => {
    const service = await openTestService({ instances: 2 })
    const admin = await service.addCompany()
    const [first] = await publishedAt(service, 0)
    const second = await rotate(service)
    service.clock.advance(300)
    const third = await rotate(service)
    service.clock.advance(300)
    expect((await issueAt(service, 0, admin)).kid).toBe(second.keyId)
    service.clock.advance(300)
    expect((await issueAt(service, 1, admin)).kid).toBe(third.keyId)
    for (const at of [0, 1])
      expect(await publishedAt(service, at)).toEqual([first, second.keyId, third.keyId])
    service.clock.advance(LAST_TOKEN_SECONDS)
    for (const at of [0, 1]) expect(await publishedAt(service, at)).toEqual([third.keyId])
  })

  test('that runs several times at once adds no key by halves (ASVS 15.4.2)', async () => {
    const service = await openTestService()
    const results = await Promise.allSettled([rotate(service), rotate(service), rotate(service)])
    const added = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.keyId] : []))
    const stored = await service.db
      .selectFrom('signing_keys')
      .select(['key_id', 'sequence'])
      .orderBy('sequence')
      .execute()
    expect(
      stored
        .slice(1)
        .map(({ key_id }) => key_id)
        .sort(),
    ).toEqual(added.sort())
    expect(stored.map(({ sequence }) => sequence)).toEqual(stored.map((_, index) => index + 1))
    for (const result of results) {
      if (result.status === 'rejected') expect(String(result.reason)).toContain('another rotation ran')
    }
  })
})

test('a retired key’s tokens are refused even if they have not expired (ASVS 9.1.3)', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()
  const { access } = await openForge(service, admin)
  const exp = Number(access.claims['exp']) + 86_400
  const token = forge(access, { payload: { ...access.claims, exp } })
  await rotate(service)
  service.clock.advance(PUBLISH_AHEAD_SECONDS + LAST_TOKEN_SECONDS - 1)
  expect((await service.getSession({ token })).status).toBe(200)
  service.clock.advance(1)
  expect((await service.getSession({ token })).body.code).toBe('invalid_token')
})

test('a new database gets one key, however many instances start on it at once (ASVS 15.4.2)', async () => {
  const service = await openTestService({ instances: 4 })
  const sets = await Promise.all([0, 1, 2, 3].map((at) => publishedAt(service, at)))
  expect(sets[0]).toHaveLength(1)
  for (const set of sets) expect(set).toEqual(sets[0])
})

test('an instance that cannot read the keys goes on with those it has (ASVS 16.5.2)', async () => {
  const service = await openTestService()
  const admin = await service.addCompany()
  const { accessToken } = await service.loginAs(admin)
  const before = await publishedAt(service, 0)
  service.clock.advance(RELOAD_SECONDS)
  const rows = await service.db.selectFrom('signing_keys').select(['key_id', 'sealed_private_key']).execute()
  await service.db.updateTable('signing_keys').set({ sealed_private_key: 'unreadable' }).execute()
  expect((await service.getSession({ token: accessToken })).status).toBe(200)
  expect(await publishedAt(service, 0)).toEqual(before)
  for (const { key_id: keyId, ...row } of rows) {
    await service.db.updateTable('signing_keys').set(row).where('key_id', '=', keyId).execute()
  }
  const { keyId } = await rotate(service)
  service.clock.advance(RELOAD_SECONDS)
  expect(await publishedAt(service, 0)).toEqual([...before, keyId])
})

function retire({ db, config, clock }: TestService, keyId: string) {
  const sealer = createSealer(config.masterKeys, clock.randomBytes)
  return retireKey({ db, sealer, system: clock }, keyId, clock.now())
}

describe('a key that has leaked', async () => {
  const service = await openTestService({ instances: 2 })
  const person = await service.addCompany()

  test('is dead with all its tokens at once, on every instance, however lately they passed (ASVS 11.2.2)', async () => {
    const { token, kid } = await issueAt(service, 0, person)
    const { refreshToken } = await service.loginAs(person)
    const { replacedBy } = await retire(service, kid)
    for (const at of [0, 1]) {
      const { status, body } = await service.getSession({ token, at })
      expect([status, body.code]).toEqual([401, 'invalid_token'])
    }
    // The sessions live on: a refresh brings a token of the new key.
    for (const at of [0, 1]) expect(await publishedAt(service, at)).toEqual([replacedBy])
    const { body } = await service.refresh(refreshToken)
    expect(kidOf(body.accessToken)).toBe(replacedBy)
    for (const at of [0, 1]) expect((await issueAt(service, at, person)).kid).toBe(replacedBy)
  })

  test('and does not sign yet is not replaced', async () => {
    const { token, kid } = await issueAt(service, 0, person)
    const { keyId: next } = await rotate(service)
    expect(await retire(service, next)).toEqual({ keyId: next, replacedBy: null })
    service.clock.advance(PUBLISH_AHEAD_SECONDS + 1)
    expect((await issueAt(service, 0, person)).kid).toBe(kid)
    expect((await service.getSession({ token })).status).toBe(200)
    expect(await publishedAt(service, 0)).toEqual([kid])
  })

  test('is replaced on an instance whose clock is behind, too', async () => {
    const clocks = [createClock(), createClock()]
    clocks[1]?.advance(-60)
    const late = await openTestService({ instances: 2, clocks })
    const admin = await late.addCompany()
    const { kid } = await issueAt(late, 0, admin)
    for (const clock of clocks) clock.advance(6)
    const { replacedBy } = await retire(late, kid)
    expect((await issueAt(late, 1, admin)).kid).toBe(replacedBy)
  })
})

test('the id of a new key begins with a letter, so no command line reads it as an option', () => {
  const system = { ...createClock(), randomBytes: (size: number) => Buffer.alloc(size, 0xff) }
  const sealer = createSealer([{ id: 'test', key: Buffer.alloc(32) }], system.randomBytes)
  const at = new Date(0)
  const { keyId } = generateKey({ sealer, system }, { sequence: 1, createdAt: at, signsFrom: at })
  expect(keyId).toMatch(/^[A-Za-z][\w-]{15}$/)
})
