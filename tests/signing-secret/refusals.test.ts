import { expect, test } from 'vitest'
import { changeSubscription } from '../../src/operator/companies.ts'
import { expectProblem } from '../support/problem.ts'
import { openTestService, type Person, times } from '../support/test-service.ts'

/** The list of refused requests shows a company more than the responses did. */

const service = await openTestService({ instances: 2, env: { TRUST_PROXY: '127.0.0.1' } })

type Row = { reason: string; count: number; [field: string]: unknown }

const EVENT = { type: 'payment.created', data: { amount: 1 } }
const ingest = (companyId: string, headers: Record<string, string>, body: string = JSON.stringify(EVENT)) =>
  service.call('/events/ingest', {
    body,
    headers: { 'content-type': 'application/json', 'x-company-id': companyId, ...headers },
  })
const seconds = () => Math.floor(service.clock.now() / 1000)
const NO_SIGNATURE = `v1,${Buffer.alloc(32).toString('base64')}`

async function listFor(admin: Person): Promise<Row[]> {
  const { accessToken: token } = await service.loginAs(admin)
  return (await service.call('/auth/webhook-secret/refusals', { method: 'GET', token })).body.refusals
}

/** Waits until the list counts this many requests. */
async function toldTo(admin: Person, count: number): Promise<Row[]> {
  let rows: Row[] = []
  await expect
    .poll(async () => {
      rows = await listFor(admin)
      return rows.reduce((sum, row) => sum + row.count, 0)
    })
    .toBe(count)
  return rows
}

test('the list of refusals has the reason of each refused event', async () => {
  const admin = await service.addCompany()
  const { companyId } = admin
  const secret = await service.newSecret(admin)
  const send = (body: unknown) => service.send(companyId, secret, body)
  const sendWith = (headers: Record<string, string>) => service.send(companyId, secret, EVENT, { headers })
  const sendOn = async (subscription: { status: 'active' | 'canceled'; plan?: string }) => {
    await changeSubscription(service.context, companyId, subscription)
    return await send(EVENT)
  }
  expect((await send({ ...EVENT, id: 'one' })).status).toBe(202)
  const stale = String(seconds() - 720)
  const rows: [reason: string, status: number, refuse: () => Promise<{ status: number }>, more?: object][] = [
    ['header_missing', 401, () => ingest(companyId, { 'webhook-id': 'msg_1' }), { webhookId: 'msg_1' }],
    ['timestamp_malformed', 401, () => sendWith({ 'webhook-timestamp': 'now' })],
    ['timestamp_stale', 401, () => sendWith({ 'webhook-timestamp': stale }), { clockSkewSeconds: -720 }],
    ['signature_malformed', 401, () => sendWith({ 'webhook-signature': 'v1=abc' })],
    ['signature_mismatch', 401, () => sendWith({ 'webhook-signature': NO_SIGNATURE })],
    ['malformed_body', 400, () => send('{')],
    ['invalid_request', 400, () => send({ type: 'X' })],
    ['event_id_conflict', 409, () => send({ ...EVENT, id: 'one', data: {} })],
    ['subscription_inactive', 402, () => sendOn({ status: 'canceled' })],
    ['feature_not_in_plan', 402, () => sendOn({ status: 'active', plan: 'starter' })],
  ]
  for (const [reason, status, refuse] of rows)
    expect([reason, (await refuse()).status]).toEqual([reason, status])
  const at = new Date(service.clock.now()).toISOString()
  const about = { count: 1, firstAt: at, lastAt: at, ipAddress: '127.0.0.1', webhookId: expect.anything() }
  const told = Object.fromEntries((await toldTo(admin, rows.length)).map((row) => [row.reason, row]))
  expect(told).toEqual(
    Object.fromEntries(rows.map(([reason, , , more]) => [reason, { reason, ...about, ...more }])),
  )
})

test('the list of refusals counts events that were refused by a limit', async () => {
  const strict = await openTestService({ env: { LIMIT_BAD_SIGNATURES: '1/60', RATE_LIMIT_SCALE: '1' } })
  const admin = await strict.addCompany()
  const { accessToken: token } = await strict.loginAs(admin)
  const send = () => strict.call('/events/ingest', { headers: { 'x-company-id': admin.companyId } })
  expect([(await send()).status, (await send()).status, (await send()).status]).toEqual([401, 429, 429])
  await expect
    .poll(async () => {
      const { body } = await strict.call('/auth/webhook-secret/refusals', { method: 'GET', token })
      return body.refusals.map(({ reason, count }: Row) => [reason, count]).toSorted()
    })
    .toEqual([
      ['header_missing', 1],
      ['rate_limited', 2],
    ])
})

test('the list of refusals names the previous secret for a day (ASVS 16.2.5)', async () => {
  const admin = await service.addCompany()
  const older = await service.newSecret(admin)
  const former = await service.newSecret(admin)
  // The first instance caches the secret, which is then replaced.
  expect((await service.send(admin.companyId, former, EVENT)).status).toBe(202)
  await service.newSecret(admin)
  for (const at of times(4, (n) => n % 2))
    expectProblem(await service.send(admin.companyId, former, EVENT, { at }), [401, 'invalid_signature'])
  service.clock.advance(10)
  expectProblem(await service.send(admin.companyId, older, EVENT, { at: 1 }), [401, 'invalid_signature'])
  const rows = await toldTo(admin, 5)
  const counts = Object.fromEntries(rows.map(({ reason, count }) => [reason, count]))
  expect(counts).toEqual({ previous_secret: 4, signature_mismatch: 1 })
  const logs = service.logs.join('')
  for (const secret of [older, former]) expect(logs).not.toContain(secret.slice('whsec_'.length))
  service.clock.advance(86_400)
  await service.send(admin.companyId, former, EVENT, { at: 1 })
  expect((await toldTo(admin, 6))[0]).toMatchObject({ reason: 'signature_mismatch', count: 1 })
})

test('only the company sees its refusals, without text of the sender (ASVS 1.3.1, 8.2.2)', async () => {
  const [ours, theirs] = [await service.addCompany(), await service.addCompany()]
  const none = '01890a5d-ac96-774b-bcce-b302099a8057'
  for (const id of [none, 'x', '']) await ingest(id, {})
  await ingest(theirs.companyId, { 'webhook-id': '<script>alert(1)</script>' })
  expect(await toldTo(theirs, 1)).toMatchObject([{ webhookId: null }])
  expect(await listFor(ours)).toEqual([])
  // Refusals at companies that do not exist are not stored.
  const rows = await service.db.selectFrom('refused_requests').select('company_id').execute()
  expect(rows.filter(({ company_id: id }) => id === none)).toEqual([])
})

test("a flood adds ten rows a minute, apart from the company's own (ASVS 2.4.1, 15.2.2)", async () => {
  const admin = await service.addCompany()
  const secret = await service.newSecret(admin)
  const from = (network: string) => ({ 'x-forwarded-for': network })
  const send = (body: unknown, network: string) =>
    service.send(admin.companyId, secret, body, { headers: from(network) })
  const flood = (network: string) =>
    Promise.all(times(20, (n) => ingest(admin.companyId, from(`${network}.${n}`))))
  expect((await send(EVENT, '192.0.2.7')).status).toBe(202)
  await flood('203.0.113')
  await expect.poll(async () => (await listFor(admin)).length).toBe(10)
  await flood('198.51.100')
  // More requests from networks with a row do count.
  const [first] = await toldTo(admin, 10)
  await Promise.all(times(10, () => ingest(admin.companyId, from(String(first?.['ipAddress'])))))
  expect(await toldTo(admin, 20)).toHaveLength(10)
  // A signed request that is not an event, and an unsigned one from a network with a valid signature.
  await send('{', '192.0.2.8')
  await ingest(admin.companyId, from('192.0.2.7'))
  const own = (await toldTo(admin, 22)).filter(({ ipAddress }) => String(ipAddress).startsWith('192.0.2.'))
  expect(own.map(({ reason }) => reason).sort()).toEqual(['header_missing', 'malformed_body'])
})
