import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { byNetwork, quotasOf } from '../../src/limits/client.ts'
import { createCounters } from '../../src/limits/counters.ts'
import { type Answer, openTestService, PASSWORD, times } from '../support/test-service.ts'

/** A network is an IPv4 address or an IPv6 /64. An IPv6 /48 has four times the limit. */

const service = await openTestService({
  instances: 2,
  env: {
    TRUST_PROXY: '127.0.0.1/32',
    RATE_LIMIT_SCALE: '1',
    LIMIT_SIGN_IN_ATTEMPTS: '3/60',
    LIMIT_REGISTER: '1/3600',
    LIMIT_ONE_TIME_TOKENS: '1/60',
    LIMIT_ANONYMOUS: '3/60',
  },
})
const { db } = service
const limit = { name: 'tries', max: 3, windowSeconds: 60 }
const LIMITED = expect.objectContaining({ code: 'rate_limited' })

const statusesOf = (answers: Answer[]) => answers.map(({ status }) => status)
const networkIn = (site: string, index: number) => `2001:db8:${site}:${index}::1`

const account = { companyId: crypto.randomUUID(), email: 'a@b.example', password: 'x' }
const company = { companyName: 'C', name: 'N', email: 'a@b.example', password: PASSWORD }

test.for<[name: string, path: string, each: number, site: string, json: object]>([
  ['sign-in-attempts', '/auth/login', 3, 'a', account],
  ['register', '/auth/register', 1, 'b', company],
  ['one-time-tokens', '/auth/verify-email', 1, 'c', { token: `verify_${'a'.repeat(43)}` }],
])('%s count by /64, and fourfold by /48, on all instances', async ([name, path, each, site, json]) => {
  const ask = (index: number, at = 0, from = networkIn(site, index)) =>
    service.call(path, { at, json, headers: { 'x-forwarded-for': from } })
  // Requests of one /64 beyond its limit do not reduce the others' limits.
  const first = await Promise.all(times(3 * each, (n) => ask(0, n % 2)))
  expect(statusesOf(first).filter((status) => status === 429)).toHaveLength(2 * each)
  for (const network of [1, 2, 3]) {
    const answers = await Promise.all(times(each, (n) => ask(network, n % 2)))
    expect(statusesOf(answers)).not.toContain(429)
  }
  const refused = await ask(4)
  expect(refused.status).toBe(429)
  expect(refused.headers['ratelimit-policy']).toMatch(`"${name}-48";q=${4 * each};`)
  expect((await ask(4, 0, networkIn(`${site}f`, 4))).status).not.toBe(429)
})

test('limits in memory count by /48 too', async () => {
  const ask = (index: number) =>
    service.call('/nothing', { method: 'GET', headers: { 'x-forwarded-for': networkIn('aaaa', index) } })
  const answers = await Promise.all(times(20, (n) => ask(Math.floor(n / 4))))
  expect(statusesOf(answers).filter((status) => status === 404)).toHaveLength(12)
  expect((await ask(9)).headers['ratelimit-policy']).toBe('"anonymous-48";q=12;w=60')
})

test('requests that the router refuses are counted and measured', async () => {
  const ask = () => service.call('/%', { method: 'GET', headers: { 'x-forwarded-for': '192.0.2.99' } })
  const answers = [await ask(), await ask(), await ask(), await ask()]
  expect(statusesOf(answers)).toEqual([400, 400, 400, 429])
  expect(answers[3]?.headers['ratelimit-policy']).toBe('"anonymous";q=3;w=60')
  const counted = /request_duration_seconds_count\{[^}]*status="400"[^}]*\} 3\n/
  expect(await service.registries[0]?.metrics()).toMatch(counted)
})

const counters = createCounters(db, (_name, run) => run)
const hits = async (name: string) => {
  const { rows } = await sql<{ hits: number }>`
    select hits from rate_counters where counter like ${`${name}:%`} order by hits`.execute(db)
  return rows.map((row) => row.hits)
}

test('an IPv6 network has two counters, an IPv4 address one', async () => {
  const use = (name: string, network: string) =>
    counters.consume({ ...limit, name }, byNetwork(network), { now: service.clock.now() })
  expect(await use('v6', '2001:db8:1::')).toMatchObject({ name: 'v6', max: 3, remaining: 2 })
  await use('v4', '192.0.2.1')
  expect([await hits('v6'), await hits('v6-48')]).toEqual([[1], [1]])
  expect([await hits('v4'), await hits('v4-48')]).toEqual([[1], []])
})

test('a use that one counter refuses is not counted by the other', async () => {
  const tries = { ...limit, name: 'refused' }
  const use = (network: number, after = 0) =>
    counters.consume(tries, byNetwork(`2001:db8:2:${network}::`), { now: service.clock.now() + after })
  for (const network of [1, 2, 3, 4]) {
    for (const _ of times(3, () => {})) await use(network)
    await expect(use(network)).rejects.toThrow(LIMITED)
  }
  for (const network of times(8, (n) => 5 + n)) await expect(use(network)).rejects.toThrow(LIMITED)
  // The counter of the /48 shows its limit and the refused use, which its next use drops.
  expect(await hits('refused')).toEqual([0, 4, 4, 4, 4])
  await counters.refund(quotasOf(tries, byNetwork('2001:db8:2:1::')))
  // After a second, a refused network is checked again.
  await use(5, 1_000)
  await expect(use(6, 1_000)).rejects.toThrow(LIMITED)
  expect(await hits('refused')).toHaveLength(6)
})

test('a second counter counts only what the first one admits', async () => {
  const own = { ...limit, name: 'own' }
  const shared = { ...limit, name: 'shared', max: 7 }
  const elsewhere = createCounters(db, (_name, run) => run)
  const uses = times(40, async (index) => {
    const quotas = [
      { limit: own, values: [`place ${index % 4}`] },
      { limit: shared, values: ['all'] },
    ]
    const instance = index % 8 < 4 ? counters : elsewhere
    const { states, usedUp } = await instance.consumeInOrder(quotas, service.clock.now())
    return [states.map(({ name }) => name), usedUp?.name]
  })
  const outcomes = Object.groupBy(await Promise.all(uses), (outcome) => JSON.stringify(outcome))
  const counts = Object.entries(outcomes).map(([outcome, those]) => [outcome, those?.length])
  expect(Object.fromEntries(counts)).toEqual({
    '[[],"own"]': 28,
    '[["own"],"shared"]': 5,
    '[["own","shared"],null]': 7,
  })
})

test('a refund neither creates a counter nor takes one below zero', async () => {
  const tries = { ...limit, name: 'gone' }
  const now = service.clock.now()
  await counters.refund(quotasOf(tries, ['x']))
  expect(await hits('gone')).toEqual([])
  await counters.consume(tries, ['x'], { now })
  await Promise.all(times(3, () => counters.refund(quotasOf(tries, ['x']))))
  expect(await hits('gone')).toEqual([0])
  for (const _ of times(3, () => {})) await counters.consume(tries, ['x'], { now })
  await expect(counters.consume(tries, ['x'], { now })).rejects.toThrow(LIMITED)
})

test('a window that a fast clock started ends one window from now', async () => {
  const tries = { ...limit, name: 'ahead' }
  const now = service.clock.now()
  for (const _ of times(3, () => {})) await counters.consume(tries, ['x'], { now: now + 86_400_000 })
  await expect(counters.consume(tries, ['x'], { now })).rejects.toThrow(LIMITED)
  expect(await counters.consume(tries, ['x'], { now: now + 60_000 })).toMatchObject({ remaining: 2 })
})
