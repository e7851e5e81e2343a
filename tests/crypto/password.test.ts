import { availableParallelism } from 'node:os'
import { hash } from '@node-rs/argon2'
import { describe, expect, test } from 'vitest'
import { createLimitedHasher } from '../../src/limits/hashing.ts'
import { openTestService, type Person, times } from '../support/test-service.ts'

const service = await openTestService({ hasher: await createLimitedHasher() })
const { isOutdated } = service.context.hasher
const admin = await service.addCompany()

async function storedHash({ userId }: Person): Promise<string> {
  const { password_hash } = await service.db
    .selectFrom('users')
    .select('password_hash')
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow()
  return password_hash
}

async function storeHash({ userId }: Person, phc: string) {
  await service.db.updateTable('users').set({ password_hash: phc }).where('user_id', '=', userId).execute()
}

/** The fields of a PHC string. */
function parse(phc: string) {
  const [, algorithm, version, m, t, p, salt = '', output = ''] =
    /^\$(\w+)\$v=(\d+)\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/.exec(phc) ?? []
  const [saltBytes, outputBytes] = [salt, output].map((text) => Buffer.from(text, 'base64').length)
  return {
    algorithm,
    version,
    memoryKib: Number(m),
    passes: Number(t),
    lanes: Number(p),
    saltBytes,
    outputBytes,
  }
}

describe('a stored password', () => {
  test('is an argon2id hash of 19 MiB and 2 passes with a salt of its own (ASVS 11.4.2)', async () => {
    const password = 'the password of twins'
    const twins = [
      await service.addUser(admin, 'viewer', { password }),
      await service.addUser(admin, 'viewer', { password }),
    ]
    const hashes = await Promise.all(twins.map(storedHash))
    for (const phc of hashes) {
      expect(parse(phc)).toEqual({
        algorithm: 'argon2id',
        version: '19',
        memoryKib: 19_456,
        passes: 2,
        lanes: 1,
        saltBytes: 16,
        outputBytes: 32,
      })
      expect(isOutdated(phc)).toBe(false)
    }
    expect(new Set(hashes).size).toBe(2)
  })

  const OLDER = [
    ['less memory', { memoryCost: 12_288, timeCost: 2, parallelism: 1 }],
    ['fewer passes', { memoryCost: 19_456, timeCost: 1, parallelism: 1 }],
    ['more lanes', { memoryCost: 19_456, timeCost: 2, parallelism: 2 }],
    ['another variant', { memoryCost: 19_456, timeCost: 2, parallelism: 1, algorithm: 1 }],
  ] as const
  test.each(OLDER)('hashed with %s is renewed at sign-in, once (ASVS 11.4.2)', async (_, parameters) => {
    const person = await service.addUser(admin)
    const old = await hash(person.password, parameters)
    expect(isOutdated(old)).toBe(true)
    await storeHash(person, old)

    expect((await service.login({ ...person, password: 'a wrong one' })).status).toBe(401)
    expect(await storedHash(person)).toBe(old)

    expect((await service.login(person)).status).toBe(200)
    const renewed = await storedHash(person)
    expect(isOutdated(renewed)).toBe(false)

    expect((await service.login(person)).status).toBe(200)
    expect(await storedHash(person)).toBe(renewed)
    expect((await service.login({ ...person, password: 'a wrong one' })).status).toBe(401)
  })

  test('is renewed by one of many sign-ins at once, and all of them succeed', async () => {
    const person = await service.addUser(admin)
    await storeHash(person, await hash(person.password, { memoryCost: 8192, timeCost: 1, parallelism: 1 }))
    const answers = await Promise.all(times(8, () => service.login(person)))
    expect(answers.map(({ status }) => status)).toEqual(times(8, () => 200))
    expect(isOutdated(await storedHash(person))).toBe(false)
    expect((await service.login(person)).status).toBe(200)
  })

  test.each([
    ['composed and decomposed', 'Ünïcödé pässwörd'.normalize('NFC'), 'Ünïcödé pässwörd'.normalize('NFD')],
    ['with the Angstrom sign', '\u00c5ngstrom-units', '\u212bngstrom-units'],
    ['in Hangul', '비밀번호는비밀이다'.normalize('NFC'), '비밀번호는비밀이다'.normalize('NFD')],
  ])('is the same however the keyboard wrote it: %s (RFC 8265, section 4.2)', async (_, one, other) => {
    expect(one).not.toBe(other)
    for (const [chosen, typed] of [
      [one, other],
      [other, one],
    ] as const) {
      const person = await service.addUser(admin, 'viewer', { password: chosen })
      expect((await service.login({ ...person, password: typed })).status).toBe(200)
    }
  })

  test.each([
    ['a space after it', (password: string) => `${password} `],
    ['a space before it', (password: string) => ` ${password}`],
    ['other capitals', (password: string) => password.toUpperCase()],
    ['full-width letters', (password: string) => password.replace('c', '\uff43')],
    ['less of its end', (password: string) => password.slice(0, -1)],
  ])('is compared exactly: %s makes another (ASVS 6.2.8)', async (_, change) => {
    const { status, body } = await service.login({ ...admin, password: change(admin.password) })
    expect([status, body.code]).toEqual([401, 'invalid_credentials'])
  })

  test.each([
    ['of 8 characters', 'k9#Lq2!v'],
    ['of 64 characters', `${'k9#Lq2!v'.repeat(8).slice(1)}é`],
    ['of 128 characters', `${'k9#Lq2!vw'.repeat(15).slice(0, 127)}!`],
    ['of 128 emoji', '🦊🐻🐼🐨🐯🦁🐮🐷'.repeat(16)],
    ['of spaces and signs', '  %_\\"\'<>&$ {}  '],
  ])('%s works, whatever they are (ASVS 6.2.5, 6.2.9)', async (_, password) => {
    const person = await service.addUser(admin, 'viewer', { password })
    expect((await service.login(person)).status).toBe(200)
    const other = `${[...password].slice(0, -1).join('')}?`
    expect((await service.login({ ...person, password: other })).status).toBe(401)
  })

  test('of more than 128 characters is refused without a hash being made (ASVS 15.2.2)', async () => {
    for (const password of ['x'.repeat(129), '🦊'.repeat(129), 'x'.repeat(2000)]) {
      const { status, body } = await service.login({ ...admin, password })
      expect([status, body.code, body.errors?.[0]?.path]).toEqual([400, 'invalid_request', '/password'])
    }
    const { status, body } = await service.login({ ...admin, password: 'x'.repeat(1_000_000) })
    expect([status, body.code]).toEqual([413, 'payload_too_large'])
  })
})

describe('hashing', () => {
  const PASSWORD = 'correct horse battery'

  /** Starts hashes at once; by the time this returns, none has ended. */
  function startAll(count: number, work: () => Promise<unknown>) {
    const results = Promise.allSettled(times(count, work))
    return { outcomes: async () => (await results).map(({ status }) => status), results }
  }

  /** A hasher whose calls are all of one client. */
  async function limited(concurrency?: number, max?: number) {
    const hasher = await createLimitedHasher(
      concurrency,
      max === undefined ? max : { max, maxPerWiderNetwork: max },
    )
    return {
      ...hasher.inTurn({ network: '192.0.2.1', isKnown: false }),
      get waiting() {
        return hasher.waiting
      },
    }
  }

  test('runs on as many cores as allowed, lets a few wait and turns the rest away (ASVS 15.1.3)', async () => {
    const hasher = await limited(2, 3)
    const { results } = startAll(10, () => hasher.hash(PASSWORD))
    // Two of five run.
    expect(hasher.waiting).toBe(3)
    const settled = await results
    expect(settled.map(({ status }) => status)).toEqual([
      ...times(5, () => 'fulfilled'),
      ...times(5, () => 'rejected'),
    ])
    for (const result of settled) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'overloaded' })
    }
    expect(hasher.waiting).toBe(0)
  })

  test('counts verifying and hashing together, known accounts and unknown ones (ASVS 6.3.8)', async () => {
    const hasher = await limited(1, 2)
    const phc = await hasher.hash(PASSWORD)
    const all = Promise.allSettled([
      hasher.verify(phc, PASSWORD),
      hasher.verify(undefined, PASSWORD),
      hasher.hash(PASSWORD),
      hasher.verify(undefined, PASSWORD),
    ])
    expect(hasher.waiting).toBe(2)
    expect(await all).toEqual([
      { status: 'fulfilled', value: true },
      { status: 'fulfilled', value: false },
      { status: 'fulfilled', value: expect.any(String) },
      { status: 'rejected', reason: expect.objectContaining({ code: 'overloaded' }) },
    ])
  })

  test('serves in the order of arrival, one newcomer for each that ends', async () => {
    const hasher = await limited(1, 10)
    const ended: number[] = []
    await Promise.all(
      times(6, async (index) => {
        await hasher.hash(PASSWORD)
        ended.push(index)
        // While one runs, those after it wait.
        expect(hasher.waiting).toBe(Math.max(0, 4 - index))
      }),
    )
    expect(ended).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('goes on after an overload and after a hash that cannot be read (ASVS 16.5.2)', async () => {
    const hasher = await limited(1, 1)
    for (const phc of ['x', '$argon2id$v=19$m=19456,t=2,p=1$broken', '$2b$12$abcdefghijklmnopqrstuv']) {
      await expect(hasher.verify(phc, PASSWORD)).rejects.toThrow()
    }
    expect(await startAll(3, () => hasher.hash(PASSWORD)).outcomes()).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
    ])
    expect(await startAll(2, () => hasher.hash(PASSWORD)).outcomes()).toEqual(['fulfilled', 'fulfilled'])
    expect(hasher.waiting).toBe(0)
  })

  test('uses no more threads than there are cores by default (ASVS 15.1.3)', async () => {
    const hasher = await limited()
    const { outcomes } = startAll(availableParallelism() + 1, () => hasher.hash(PASSWORD))
    expect(hasher.waiting).toBe(1)
    expect(new Set(await outcomes())).toEqual(new Set(['fulfilled']))
  })

  test('matches nothing where there is no hash, not even the empty password (ASVS 6.3.8)', async () => {
    const hasher = await limited(1)
    for (const password of ['', PASSWORD, 'nobody'])
      expect(await hasher.verify(undefined, password)).toBe(false)
  })
})
