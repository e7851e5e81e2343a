import { randomBytes, randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createClient, deleteClient, finishRotation, rotateClient } from '../../src/operator/clients.ts'
import { listClients } from '../../src/platform/repository.ts'
import { expectProblem } from '../http/problem.ts'
import { addClient, basic, FORM, introspect } from '../support/platform.ts'
import { type Answer, times, useSharedService } from '../support/test-service.ts'

/** The platform's services prove who they are by id and secret. */

const { service } = await useSharedService()
const { context, clock } = service
const { accessToken: token } = await service.loginAs(await service.addCompany())

const statusOf = async (client: Parameters<typeof introspect>[1], at = 0) =>
  (await introspect(service, client, token, at)).status
const statuses = async (client: Parameters<typeof introspect>[1]) => [
  await statusOf(client, 0),
  await statusOf(client, 1),
]
const askWith = (authorization: string | string[] | undefined) =>
  service.ask('/introspect', {
    headers: { ...FORM, ...(authorization !== undefined && { authorization }) },
    body: `token=${token}`,
  })

function expectRefused(answer: Answer): void {
  expectProblem(answer, [401, 'invalid_client'])
  expect(answer.headers['www-authenticate']).toBe('Basic realm="gatehouse"')
}

describe('HTTP Basic (RFC 6749, section 2.3.1)', async () => {
  const client = await addClient(service)
  const { id, secret } = client
  const encode = (text: string) => Buffer.from(text).toString('base64')
  const percent = (text: string) =>
    [...text].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join('')

  test.for([
    ['as it is', basic(client)],
    ['percent-encoded', `Basic ${encode(`${percent(id)}:${percent(secret)}`)}`],
    ['with the scheme in other letters', basic(client).replace('Basic', 'bASIC')],
    ['after several spaces', basic(client).replace(' ', '   ')],
  ])('admits a client %s', async ([, authorization]) => {
    expect((await askWith(authorization)).status).toBe(200)
  })

  test.for<[string, string | string[] | undefined]>([
    ['nothing', undefined],
    ['the scheme alone', 'Basic'],
    ['another scheme', `Bearer ${encode(`${id}:${secret}`)}`],
    ['the access token of a session', `Bearer ${token}`],
    ['two headers', [basic(client), basic(client)]],
    ['what is no base64', 'Basic a:b'],
    ['base64 with something behind it', `${basic(client)} x`],
    ['no colon', `Basic ${encode(id + secret)}`],
    ['no secret', `Basic ${encode(`${id}:`)}`],
    ['another secret', basic({ id, secret: randomBytes(32).toString('base64url') })],
    ['the secret and more', basic({ id, secret: `${secret}A` })],
    ['the secret with a colon behind it', basic({ id, secret: `${secret}:` })],
    ['a broken %-escape', basic({ id, secret: `${secret.slice(0, -1)}%` })],
    ['an escape that is no UTF-8', basic({ id, secret: '%ff' })],
    ['an id of nobody', basic({ id: randomUUID(), secret })],
    ['an id in capitals', basic({ id: id.toUpperCase(), secret })],
    ['an id that is none', basic({ id: "' or true --", secret })],
    ['__proto__', basic({ id: '__proto__', secret })],
    ['NUL', basic({ id: '\u0000', secret: '\u0000' })],
  ])('does not admit %s', async ([, authorization]) => {
    expectRefused(await askWith(authorization))
  })

  test('is asked for before the body is looked at', async () => {
    expectRefused(await service.ask('/introspect', { json: {} }))
    expectRefused(await service.ask('/introspect?x=1'))
  })
})

describe('a client', () => {
  test('without the scope is told so (403)', async () => {
    const reader = await addClient(service, ['events:read'])
    const both = await addClient(service, ['events:read', 'introspect', 'introspect'])
    clock.advance(1)
    expectProblem(await introspect(service, reader, token), [403, 'permission_denied'])
    expect(both.scopes).toEqual(['introspect', 'events:read'])
    expect(await statusOf(both)).toBe(200)
  })

  test('that has just been made is known within a second, on every instance', async () => {
    const known = await addClient(service)
    clock.advance(1)
    expect(await statuses(known)).toEqual([200, 200])
    const client = await createClient(context, { name: 'graph', scopes: ['introspect'] }, clock.now())
    expect(await statuses(client)).toEqual([401, 401])
    clock.advance(1)
    expect(await statuses(client)).toEqual([200, 200])
  })

  test('that is deleted is refused within a second, on every instance', async () => {
    const client = await addClient(service)
    clock.advance(1)
    expect(await statuses(client)).toEqual([200, 200])
    await deleteClient(context, client.id, clock.now())
    clock.advance(1)
    expect(await statuses(client)).toEqual([401, 401])
    await expect(deleteClient(context, client.id, clock.now())).rejects.toThrow('no such client')
  })

  test('has two secrets while it is rotated, and then the newest alone', async () => {
    const first = await addClient(service)
    const second = { ...first, ...(await rotateClient(context, first.id, clock.now())) }
    clock.advance(1)
    expect([await statuses(first), await statuses(second)]).toEqual([
      [200, 200],
      [200, 200],
    ])
    // The next rotation ends the oldest.
    const third = { ...first, ...(await rotateClient(context, first.id, clock.now())) }
    clock.advance(1)
    expect([await statusOf(first), await statusOf(second, 1), await statusOf(third)]).toEqual([401, 200, 200])
    for (const _ of times(2, () => {})) {
      expect(await finishRotation(context, first.id, clock.now())).toEqual({
        id: first.id,
        name: 'risk',
        scopes: ['introspect'],
      })
      clock.advance(1)
      expect([await statusOf(first), await statusOf(second, 1), await statusOf(third)]).toEqual([
        401, 401, 200,
      ])
    }
    const nobody = randomUUID()
    await expect(rotateClient(context, nobody, clock.now())).rejects.toThrow('no such client')
    await expect(finishRotation(context, nobody, clock.now())).rejects.toThrow('no such client')
  })

  test('is admitted however many wrong secrets come, and they are counted (ASVS 6.3.1)', async () => {
    const client = await addClient(service)
    clock.advance(1)
    const refused = async () =>
      Number(
        /^gatehouse_platform_clients_refused_total (\d+)$/m.exec(
          (await service.registries[0]?.metrics()) ?? '',
        )?.[1],
      )
    const before = await refused()
    const guesses = await Promise.all(
      times(1_000, () => askWith(basic({ ...client, secret: randomBytes(32).toString('base64url') }))),
    )
    expect(new Set(guesses.map(({ status }) => status))).toEqual(new Set([401]))
    expect(await refused()).toBe(before + 1_000)
    expect(await statusOf(client)).toBe(200)
  })

  test('is stored without its secret, which is in no log either (ASVS 16.2.5)', async () => {
    const client = await addClient(service)
    const next = await rotateClient(context, client.id, clock.now())
    clock.advance(1)
    expect(await statusOf(client)).toBe(200)
    const rows = await service.db.selectFrom('platform_clients').selectAll().execute()
    const audit = await service.db.selectFrom('audit_events').selectAll().execute()
    for (const secret of [client.secret, next.secret]) {
      expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/)
      const text = JSON.stringify([rows, audit]) + service.logs.join('')
      expect(text).not.toContain(secret)
      expect(text).not.toContain(basic({ ...client, secret }).slice('Basic '.length))
    }
    await expect.poll(() => service.logs.join('')).toContain(`"clientId":"${client.id}"`)
  })

  test('has a name as people have, and scopes that there are', async () => {
    for (const name of ['', 'a\u0000b', 'http://x.example', 'x'.repeat(101)])
      await expect(createClient(context, { name, scopes: ['introspect'] }, clock.now())).rejects.toThrow()
    for (const scopes of [[], [''], ['introspect', 'everything'], ['Introspect']])
      await expect(createClient(context, { name: 'risk', scopes }, clock.now())).rejects.toThrow(/scope/)
  })
})

describe('the last use of a client', () => {
  const lastUsedAt = async (id: string) =>
    (await listClients(service.db)).find((client) => client.id === id)?.lastUsedAt

  test('is true to the hour, and written once in it', async () => {
    const client = await addClient(service)
    clock.advance(1)
    expect(await lastUsedAt(client.id)).toBeNull()
    const hourOf = (ms: number) => new Date(Math.floor(ms / 3_600_000) * 3_600_000)
    await statuses(client)
    await expect.poll(() => lastUsedAt(client.id)).toEqual(hourOf(clock.now()))
    // What a second statement in the hour would undo.
    const older = new Date(0)
    const where = () => service.db.updateTable('platform_clients').where('client_id', '=', client.id)
    await where().set({ last_used_at: older }).execute()
    await statuses(client)
    expect(await lastUsedAt(client.id)).toEqual(older)
    clock.advance(3600)
    await statuses(client)
    await expect.poll(() => lastUsedAt(client.id)).toEqual(hourOf(clock.now()))
  })

  test('holds no answer up', async () => {
    const client = await addClient(service)
    clock.advance(1)
    await service.db.transaction().execute(async (tx) => {
      await tx
        .selectFrom('platform_clients')
        .select('client_id')
        .where('client_id', '=', client.id)
        .forUpdate()
        .execute()
      expect(await statusOf(client)).toBe(200)
      expect(await lastUsedAt(client.id)).toBeNull()
    })
    await expect.poll(() => lastUsedAt(client.id)).not.toBeNull()
  })
})
