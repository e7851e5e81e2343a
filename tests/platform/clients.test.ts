import { randomBytes, randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createClient, deleteClient, finishRotation, rotateClient } from '../../src/operator/platform.ts'
import { listClients } from '../../src/platform/repository.ts'
import { addClient, basic, FORM, introspect } from '../support/platform.ts'
import { expectProblem } from '../support/problem.ts'
import { type Answer, times, useSharedService } from '../support/test-service.ts'

/** Platform services authenticate by ID and secret. */

const { service } = await useSharedService()
const { context, clock } = service
const { accessToken: token } = await service.loginAs(await service.addCompany())

type Credentials = Parameters<typeof introspect>[1]
const statusOf = async (client: Credentials, at = 0) => (await introspect(service, client, token, at)).status
const statuses = async (client: Credentials) => [await statusOf(client, 0), await statusOf(client, 1)]
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
    ['percent-encoded', `Basic ${encode(`${percent(id)}:${percent(secret)}`)}`],
    ['after a scheme in mixed case and several spaces', basic(client).replace('Basic', 'bASIC  ')],
  ])('a client is admitted with its ID and secret %s', async ([, authorization]) => {
    expect((await askWith(authorization)).status).toBe(200)
  })

  test.for<[string, string | string[] | undefined]>([
    ['no header', undefined],
    ['a different scheme', `Bearer ${encode(`${id}:${secret}`)}`],
    ['two headers', [basic(client), basic(client)]],
    ['text after the base64', `${basic(client)} x`],
    ['a wrong secret', basic({ id, secret: randomBytes(32).toString('base64url') })],
    ['a longer secret', basic({ id, secret: `${secret}A` })],
    ['a second colon', basic({ id, secret: `${secret}:` })],
    ['a broken escape', basic({ id, secret: `${secret.slice(0, -1)}%` })],
    ['an unknown ID', basic({ id: randomUUID(), secret })],
    ['its ID in capitals', basic({ id: id.toUpperCase(), secret })],
  ])('a client is refused with %s (ASVS 10.4.10)', async ([, authorization]) => {
    expectRefused(await askWith(authorization))
  })

  test('a client is authenticated before its body is read', async () => {
    expectRefused(await service.ask('/introspect', { json: {} }))
    expectRefused(await service.ask('/introspect?x=1'))
  })
})

test('a client without the scope gets 403 (ASVS 10.4.11)', async () => {
  const reader = await addClient(service, ['events:read'])
  const both = await addClient(service, ['events:read', 'introspect', 'introspect'])
  expectProblem(await introspect(service, reader, token), [403, 'permission_denied'])
  expect(both.scopes).toEqual(['introspect', 'events:read'])
  expect(await statusOf(both)).toBe(200)
})

test('every instance learns about a new or deleted client within a second', async () => {
  const known = await addClient(service)
  expect(await statuses(known)).toEqual([200, 200])
  const client = await createClient(context, { name: 'graph', scopes: ['introspect'] })
  expect(await statuses(client)).toEqual([401, 401])
  clock.advance(1)
  expect(await statuses(client)).toEqual([200, 200])
  await deleteClient(context, client.id)
  clock.advance(1)
  expect(await statuses(client)).toEqual([401, 401])
  await expect(deleteClient(context, client.id)).rejects.toThrow('no such client')
})

test('a client has two secrets during a rotation, then only the newest', async () => {
  const first = await addClient(service)
  const rotate = async () => ({ ...first, ...(await rotateClient(context, first.id)) })
  const second = await rotate()
  clock.advance(1)
  expect([await statuses(first), await statuses(second)].flat()).toEqual([200, 200, 200, 200])
  // The next rotation ends the oldest secret.
  const third = await rotate()
  const statusesOfAll = async () => {
    clock.advance(1)
    return [await statusOf(first), await statusOf(second, 1), await statusOf(third)]
  }
  expect(await statusesOfAll()).toEqual([401, 200, 200])
  const finished = { id: first.id, name: 'risk', scopes: ['introspect'] }
  // Ending it again changes nothing.
  for (const _ of [1, 2]) {
    expect(await finishRotation(context, first.id)).toEqual(finished)
    expect(await statusesOfAll()).toEqual([401, 401, 200])
  }
  for (const change of [rotateClient, finishRotation])
    await expect(change(context, randomUUID())).rejects.toThrow('no such client')
})

test('wrong secrets are counted, but lock no client out (ASVS 6.3.1)', async () => {
  const client = await addClient(service)
  const refused = () => service.metric('gatehouse_platform_clients_refused_total')
  const before = await refused()
  const guess = () => basic({ ...client, secret: randomBytes(32).toString('base64url') })
  const guesses = await Promise.all(times(200, () => askWith(guess())))
  expect(new Set(guesses.map(({ status }) => status))).toEqual(new Set([401]))
  expect(await refused()).toBe(before + 200)
  expect(await statusOf(client)).toBe(200)
})

test("neither the database nor the log has a client's secret (ASVS 16.2.5)", async () => {
  const client = await addClient(service)
  const next = await rotateClient(context, client.id)
  clock.advance(1)
  expect(await statusOf(client)).toBe(200)
  await expect.poll(() => service.logs.join('')).toContain(`"clientId":"${client.id}"`)
  const rows = await service.db.selectFrom('platform_clients').selectAll().execute()
  const audit = await service.db.selectFrom('audit_events').selectAll().execute()
  for (const secret of [client.secret, next.secret]) {
    expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/)
    const text = JSON.stringify([rows, audit]) + service.logs.join('')
    expect(text).not.toContain(secret)
    expect(text).not.toContain(basic({ ...client, secret }).slice('Basic '.length))
  }
})

const lastUsedAt = async (id: string) =>
  (await listClients(service.db)).find((client) => client.id === id)?.lastUsedAt

test("a client's last use is written hourly, without delaying a response", async () => {
  const { id, ...client } = await addClient(service)
  const use = () => statuses({ id, ...client })
  const hour = () => new Date(Math.floor(clock.now() / 3_600_000) * 3_600_000)
  await service.db.transaction().execute(async (tx) => {
    await tx.selectFrom('platform_clients').select('name').where('client_id', '=', id).forUpdate().execute()
    expect(await use()).toEqual([200, 200])
    expect(await lastUsedAt(id)).toBeNull()
  })
  await expect.poll(() => lastUsedAt(id)).toEqual(hour())
  // A second write within the hour would overwrite this.
  const older = new Date(0)
  const change = service.db.updateTable('platform_clients').set({ last_used_at: older })
  await change.where('client_id', '=', id).execute()
  await use()
  expect(await lastUsedAt(id)).toEqual(older)
  clock.advance(3600)
  await use()
  await expect.poll(() => lastUsedAt(id)).toEqual(hour())
})
