import { beforeEach, describe, expect, test } from 'vitest'
import { createSealer } from '../../src/crypto/sealing.ts'
import { retireKey, rotateKeys } from '../../src/operator/keys.ts'
import { PUBLISH_AHEAD_SECONDS } from '../../src/token/key-rotation.ts'
import { generateKey } from '../../src/token/keys.ts'
import { createClock, openTestService, type Person, type TestService } from '../support/test-service.ts'
import { decode, forge, openForge, partsOf } from './forge.ts'

/** Keys change without a token that fails (ASVS 11.2.2, 13.3.4). */

/** How long after a key's successor began to sign its last token has expired: its life and the clocks' difference. */
const LAST_TOKEN_SECONDS = 900 + 120
/** How long an instance may take to see a change. */
const RELOAD_SECONDS = 61

const kidOf = (token: string) => String(decode(partsOf(token)[0])['kid'])

async function publishedAt(service: TestService, at: number): Promise<string[]> {
  const { body } = await service.call('/.well-known/jwks.json', { method: 'GET', at })
  return body.keys.map(({ kid }: { kid: string }) => kid)
}

const contextOf = ({ db, config, clock }: TestService) => {
  return { db, sealer: createSealer(config.masterKeys, clock.randomBytes), system: clock }
}
const rotate = (service: TestService) => rotateKeys(contextOf(service))
const retire = (service: TestService, keyId: string) =>
  retireKey(contextOf(service), keyId, service.clock.now())

/** Signs in at an instance; every instance must accept the token. Returns it with the key that signed it. */
async function issueAt(service: TestService, at: number, person: Person) {
  const { accessToken } = await service.loginAs(person, { at })
  for (const other of service.addresses.keys()) {
    expect((await service.getSession({ token: accessToken, at: other })).status).toBe(200)
  }
  return { token: String(accessToken), kid: kidOf(accessToken) }
}

const service = await openTestService({ instances: 2 })
const admin = await service.addCompany()
const both = [0, 1]
const keysAtStart = await Promise.all(both.map((at) => publishedAt(service, at)))

/** Until the newest key is the only one. */
beforeEach(() => service.clock.advance(PUBLISH_AHEAD_SECONDS + LAST_TOKEN_SECONDS))

test('instances that start together on a new database share one key (ASVS 15.4.2)', () => {
  const [one, other] = keysAtStart
  expect(one).toHaveLength(1)
  expect(other).toEqual(one)
})

describe('rotations', () => {
  test('a key rotation reaches all instances without breaking a token (ASVS 11.2.2)', async () => {
    const [old] = await publishedAt(service, 0)
    expect((await issueAt(service, 0, admin)).kid).toBe(old)

    const { keyId, signsFrom } = await rotate(service)
    expect(signsFrom.getTime()).toBe(service.clock.now() + PUBLISH_AHEAD_SECONDS * 1000)

    // Published, so that services that verify offline know it, but not yet in use.
    service.clock.advance(RELOAD_SECONDS)
    for (const at of both) {
      expect(await publishedAt(service, at)).toEqual([old, keyId])
      expect((await issueAt(service, at, admin)).kid).toBe(old)
    }
    service.clock.advance(PUBLISH_AHEAD_SECONDS - RELOAD_SECONDS - 1)
    const last = await issueAt(service, 0, admin)
    expect(last.kid).toBe(old)
    const expectLast = async (status: number) => {
      for (const at of both) expect((await service.getSession({ token: last.token, at })).status).toBe(status)
    }

    // In use, and the old one's tokens are valid until their own end.
    service.clock.advance(1)
    for (const at of both) expect((await issueAt(service, at, admin)).kid).toBe(keyId)
    await expectLast(200)
    service.clock.advance(898)
    await expectLast(200)
    service.clock.advance(1)
    await expectLast(401)

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

  test('a key rotation can start before the previous one has ended', async () => {
    const [first] = await publishedAt(service, 0)
    const second = await rotate(service)
    service.clock.advance(300)
    const third = await rotate(service)
    service.clock.advance(300)
    expect((await issueAt(service, 0, admin)).kid).toBe(second.keyId)
    service.clock.advance(300)
    expect((await issueAt(service, 1, admin)).kid).toBe(third.keyId)
    for (const at of both) expect(await publishedAt(service, at)).toEqual([first, second.keyId, third.keyId])
    service.clock.advance(LAST_TOKEN_SECONDS)
    for (const at of both) expect(await publishedAt(service, at)).toEqual([third.keyId])
  })

  test('concurrent key rotations add only whole keys (ASVS 15.4.2)', async () => {
    const listStored = () =>
      service.db.selectFrom('signing_keys').select(['key_id', 'sequence']).orderBy('sequence').execute()
    const before = await listStored()
    const results = await Promise.allSettled([rotate(service), rotate(service), rotate(service)])
    const added = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.keyId] : []))
    const stored = await listStored()
    const ids = stored.slice(before.length).map(({ key_id }) => key_id)
    expect(ids.sort()).toEqual(added.sort())
    expect(stored.map(({ sequence }) => sequence)).toEqual(stored.map((_, index) => index + 1))
    for (const result of results) {
      if (result.status === 'rejected') expect(String(result.reason)).toContain('another rotation ran')
    }
  })
})

test('tokens of a retired key are rejected even before they expire (ASVS 9.1.3)', async () => {
  const { access } = await openForge(service, admin)
  const exp = Number(access.claims['exp']) + 86_400
  const token = forge(access, { payload: { ...access.claims, exp } })
  await rotate(service)
  service.clock.advance(PUBLISH_AHEAD_SECONDS + LAST_TOKEN_SECONDS - 1)
  expect((await service.getSession({ token })).status).toBe(200)
  service.clock.advance(1)
  expect((await service.getSession({ token })).body.code).toBe('invalid_token')
})

test('an instance that cannot read the keys continues with those it has (ASVS 16.5.2)', async () => {
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

describe('leaked keys', () => {
  test('a leaked key and its tokens are revoked immediately on every instance (ASVS 11.2.2)', async () => {
    const { token, kid } = await issueAt(service, 0, admin)
    const { refreshToken } = await service.loginAs(admin)
    const { replacedBy } = await retire(service, kid)
    for (const at of both) {
      const { status, body } = await service.getSession({ token, at })
      expect([status, body.code]).toEqual([401, 'invalid_token'])
    }
    // The sessions remain: a refresh brings a token of the new key.
    for (const at of both) expect(await publishedAt(service, at)).toEqual([replacedBy])
    const { body } = await service.refresh(refreshToken)
    expect(kidOf(body.accessToken)).toBe(replacedBy)
    for (const at of both) expect((await issueAt(service, at, admin)).kid).toBe(replacedBy)
  })

  test('a leaked key that does not sign yet is not replaced', async () => {
    const { token, kid } = await issueAt(service, 0, admin)
    const { keyId: next } = await rotate(service)
    expect(await retire(service, next)).toEqual({ keyId: next, replacedBy: null })
    service.clock.advance(PUBLISH_AHEAD_SECONDS + 1)
    expect((await issueAt(service, 0, admin)).kid).toBe(kid)
    expect((await service.getSession({ token })).status).toBe(200)
    expect(await publishedAt(service, 0)).toEqual([kid])
  })
})

describe('instances whose clocks are a minute late and early', async () => {
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

  test('a leaked key is replaced on the late one too', async () => {
    const { kid } = await issueAt(service, 1, admin)
    // By then, the key signs for the operator too, even if the early instance created it.
    advance(66)
    const { replacedBy } = await retire(service, kid)
    expect((await issueAt(service, 0, admin)).kid).toBe(replacedBy)
  })

  test('a rotation breaks no token (ASVS 9.2.1)', async () => {
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
})

test('the id of a key never looks like a command-line option', () => {
  const system = { ...createClock(), randomBytes: (size: number) => Buffer.alloc(size, 0xff) }
  const sealer = createSealer([{ id: 'test', key: Buffer.alloc(32) }], system.randomBytes)
  const at = new Date(0)
  const { keyId } = generateKey({ sealer, system }, { sequence: 1, createdAt: at, signsFrom: at })
  expect(keyId).toMatch(/^[A-Za-z][\w-]{15}$/)
})
