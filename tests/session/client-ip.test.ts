import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { listAudit } from '../support/audit.ts'
import { linesAbout } from '../support/log-lines.ts'
import { expectField, expectProblem } from '../support/problem.ts'
import { COOKIE_MODE, openFactorService } from '../support/second-factors.ts'
import { type Answer, type Person, times } from '../support/test-service.ts'

/** A company's own server signs its people in, and names their IP addresses. */

const service = await openFactorService({
  instances: 2,
  env: { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_SCALE: '1', LIMIT_CLIENT_IPS: '90/60' },
})
const { db } = service

interface Server {
  userId: string
  /** Its service password. */
  token: string
}

async function addServer(admin: Person): Promise<Server> {
  const { accessToken } = await service.loginAs(admin, from('198.51.100.1'))
  const json = { name: 'Web', role: 'viewer' }
  const { status, body } = await service.call('/auth/members', { token: accessToken, json })
  expect(status).toBe(201)
  return { userId: body.id, token: body.password }
}

const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })
const named = (token: string, address: string | string[], at = 0) => ({
  token,
  headers: { 'gatehouse-client-ip': address },
  at,
})
const WRONG = { password: 'not the password' }

const admin = await service.addCompany()
const server = await addServer(admin)
const other = await service.addCompany()

const expectRefused = (answer: Answer) => expectProblem(answer, [401, 'invalid_credentials'])

test('people have their own limits, and their server has none of theirs', async () => {
  const people = await Promise.all(times(40, () => service.addUser(admin)))
  const statuses = await Promise.all(
    people.map((person, n) =>
      service.login(person, named(server.token, `192.0.2.${n}`, n % 2)).then(({ status }) => status),
    ),
  )
  expect(new Set(statuses)).toEqual(new Set([200]))
})

test('the audit trail has the IP address that the server names, and the server', async () => {
  const person = await service.addUser(admin)
  const answer = await service.login(person, named(server.token, '2001:db8::7'))
  expect(answer.status).toBe(200)
  expect(await listAudit(db, 'sign_in', person)).toMatchObject([{ details: { via: server.userId } }])
  expect(await linesAbout(service, answer)).toMatchObject([{ ipAddress: '2001:db8::7', via: server.userId }])
  const { body } = await service.call('/auth/sessions', { method: 'GET', token: answer.body.accessToken })
  expect(body.sessions).toMatchObject([{ ipAddress: '2001:db8::7' }])
})

test('an access token of the service account is accepted, too, and a second factor can follow', async () => {
  const account = await db
    .selectFrom('users')
    .select('email')
    .where('user_id', '=', server.userId)
    .executeTakeFirstOrThrow()
  const signedIn = await service.loginAs({ ...admin, email: account.email ?? '', password: server.token })
  const person = await service.personWithTotp(admin)
  const options = named(signedIn.accessToken, '192.0.2.77')
  const { challenge } = await service.begin(person, options)
  await service.complete({ challenge, method: 'totp', code: '000000' }, options)
  expect(await listAudit(db, 'second_factor', person)).toMatchObject([{ details: { via: server.userId } }])
  expect((await service.complete({ challenge, ...service.totpOf(person) }, options)).status).toBe(200)
  const forgot = { companyId: admin.companyId, email: person.email }
  expect((await service.call('/auth/password/forgot', { json: forgot, ...options })).status).toBe(202)
})

test('ten wrong passwords bar one named network alone', async () => {
  const person = await service.addUser(admin)
  for (const _ of times(10, () => 0))
    expectRefused(await service.login({ ...person, ...WRONG }, named(server.token, '203.0.113.1')))
  expect((await service.login(person, named(server.token, '203.0.113.1'))).status).not.toBe(200)
  expect((await service.login(person, named(server.token, '203.0.113.2'))).status).toBe(200)
})

test('a server uses up no limit of the networks that it names', async () => {
  const busy = await service.addCompany()
  const { token } = await addServer(busy)
  const attempts = times(31, () =>
    service.login({ ...busy, email: 'no@body.example', ...WRONG }, named(token, '203.0.113.9')),
  )
  expect((await Promise.all(attempts)).map(({ status }) => status)).toContain(429)
  expect((await service.login(admin, from('203.0.113.9'))).status).toBe(200)
})

test('people of a different company are unknown users, whose limits stay untouched', async () => {
  const { token } = await addServer(other)
  const person = await service.personWithTotp(admin)
  const company = await service.handleOf(admin)
  for (const _ of times(12, () => 0)) {
    const { email, password } = person
    const answer = await service.call('/auth/login', {
      json: { company, email, password },
      ...named(token, '203.0.113.20'),
    })
    expectProblem(answer, answer.status === 429 ? [429, 'rate_limited'] : [401, 'invalid_credentials'])
  }
  const { challenge } = await service.begin(person, from('203.0.113.20'))
  const json = { challenge, ...service.totpOf(person) }
  expectProblem(await service.complete(json, named(token, '203.0.113.20')), [401, 'invalid_second_factor'])
  expect((await service.complete(json, from('203.0.113.20'))).status).toBe(200)
  const forgot = { companyId: admin.companyId, email: person.email }
  const answer = await service.call('/auth/password/forgot', {
    json: forgot,
    ...named(token, '203.0.113.20'),
  })
  expect(answer.status).toBe(202)
  const mails = db.selectFrom('mail_outbox').where('recipient', '=', person.email)
  expect(await mails.where('kind', '=', 'password_reset').select('kind').execute()).toEqual([])
})

test.for<[string, string | string[]]>([
  ['a host name', 'localhost'],
  ['two addresses', ['192.0.2.1', '192.0.2.2']],
  ['an address with a zone', 'fe80::1%eth0'],
  ['nothing', ''],
])('%s is refused as the address of a client', async ([, address]) => {
  const answer = await service.login(admin, named(server.token, address))
  expectField(answer, '/headers/gatehouse-client-ip')
})

test('the address is never ignored: it needs the credential of a service account', async () => {
  const headers = { 'gatehouse-client-ip': '192.0.2.1' }
  expectField(await service.login(admin, { headers }), '/headers/gatehouse-client-ip')
  const { accessToken } = await service.loginAs(admin, from('198.51.100.2'))
  const wrong = `gsp_${'A'.repeat(43)}`
  for (const token of [accessToken, wrong, randomUUID()])
    expectProblem(await service.login(admin, { token, headers }), [401, 'invalid_token'])
  expect((await service.login(admin, { token: wrong })).status).toBe(200)
})

test('requests that name a client have a limit by service account', async () => {
  const { token } = await addServer(admin)
  const answers = await Promise.all(
    times(91, (n) =>
      service.call('/auth/password/forgot', {
        json: { companyId: admin.companyId, email: 'no@body.example' },
        ...named(token, `203.0.113.${n}`),
      }),
    ),
  )
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
})

test('a server cannot lock out known browsers of others on a network that it names', async () => {
  const network = '203.0.113.50'
  const deviceOf = ({ headers }: Answer) =>
    /__Host-device=[^;]+/.exec([headers['set-cookie']].flat().join())?.[0] ?? ''
  const victim = await service.addCompany()
  const browser = { 'x-forwarded-for': network, ...COOKIE_MODE }
  const cookie = deviceOf(await service.login(victim, { headers: browser }))
  const busy = await service.addCompany()
  const servers = [await addServer(busy), await addServer(busy)]
  const signIn = (cookie?: string, n = 0) =>
    service.login(busy, {
      token: servers[n % 2]?.token,
      headers: { 'gatehouse-client-ip': network, ...COOKIE_MODE, ...(cookie && { cookie }) },
    })
  const devices = []
  for (const _ of times(5, () => 0)) devices.push(deviceOf(await signIn()))
  await Promise.all(devices.flatMap((device) => times(28, (n) => signIn(device, n))))
  const answer = await service.login(victim, { headers: { ...browser, cookie } })
  expect(answer.status).toBe(200)
})

test('a request for an email makes no network known to the proxy', async () => {
  const json = { companyId: admin.companyId, email: 'no@body.example' }
  const stranger = await service.call('/auth/password/forgot', { json })
  expect(stranger.headers).not.toHaveProperty('x-network-proven')
})

test('emails that a server causes share the turns of one network', async () => {
  const person = await service.addUser(admin)
  const json = { companyId: admin.companyId, email: person.email }
  const { token } = await addServer(admin)
  await Promise.all(
    times(6, (n) => service.call('/auth/password/forgot', { json, ...named(token, `203.0.113.${n}`) })),
  )
  const mails = db.selectFrom('mail_outbox').select('network').where('recipient', '=', person.email)
  const networks = (await mails.execute()).map(({ network }) => network)
  expect([networks.length, new Set(networks)]).toEqual([3, new Set([admin.companyId])])
})

test('malformed addresses count as requests without a credential', async () => {
  const answers = await Promise.all(
    times(601, () =>
      service.login(admin, { headers: { 'gatehouse-client-ip': 'x', 'x-forwarded-for': '198.51.100.77' } }),
    ),
  )
  expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThan(0)
})
