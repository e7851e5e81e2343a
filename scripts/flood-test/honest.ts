import { setTimeout as sleep } from 'node:timers/promises'
import { requireStatus } from '../kit/client.ts'
import { drive, latencyAt, type Measurement, type Work } from '../kit/drive.ts'
import { ingest } from '../kit/events.ts'
import {
  type Credentials,
  checkSession,
  loginRequest,
  type Operation,
  perform,
  refresh,
} from '../kit/operations.ts'
import { openFrom, sendFrom } from './networks.ts'
import type { Target } from './target.ts'

/** Requests of honest users per second. */
const RATES = {
  'sign-in, known network': 4,
  /** From a new network, with the cookie of a known device. */
  'sign-in, known device': 2,
  'sign-in, new network': 2,
  'session check': 50,
  refresh: 10,
  'signed event': 20,
}

export type Kind = keyof typeof RATES

export interface Seen {
  kind: Kind
  sent: number
  succeeded: number
  /** 0 if nothing was sent. */
  share: number
  /** In milliseconds, of successful requests. */
  p50: number
  p99: number
  errors: Record<string, number>
}

const DEADLINE_MS = 5_000
/** Enough that no session is refreshed again during a refresh. */
const SESSIONS = 60
/** Each of these members signs in from one network, or on one device. */
const RESIDENTS = 20
const DEVICES = 10
const COOKIE_MODE = { 'x-session-mode': 'cookie' }

/** Each group of users has its own networks (RFC 1918). */
const networksOf = (group: number) => (n: number) => `10.${group}.${(n >> 8) & 255}.${n & 255}`
const home = networksOf(16)
const firstVisit = networksOf(17)
const deviceTravel = networksOf(32)
const travel = networksOf(48)
const SENDERS = '10.18.0.1'

/** Signs honest users in. The returned function runs their actions. */
export async function prepareHonest(target: Target): Promise<(durationMs: number) => Promise<Seen[]>> {
  const works = await prepareWorks(target)
  const kinds = Object.keys(RATES) as Kind[]
  return (durationMs) =>
    Promise.all(
      kinds.map(async (kind, n) => {
        const rate = RATES[kind]
        // Otherwise kinds whose rates are multiples of each other would send at the same moments.
        await sleep((1000 / rate) * (n / kinds.length))
        // Enough virtual users, even if every response takes until the deadline.
        const users = Math.ceil((rate * DEADLINE_MS) / 1000) + 2
        const measured = await drive({ works: Array(users).fill(works[kind]), durationMs, rate })
        return summarize(kind, measured)
      }),
    )
}

async function prepareWorks({ url, honest, sender, addSessions }: Target): Promise<Record<Kind, Work>> {
  const open = (ipAddress: string, connections = 1) =>
    openFrom(ipAddress, url, { connections, deadlineMs: DEADLINE_MS })

  /** On a new connection, as a user who is not signed in. */
  async function signIn(ipAddress: string, credentials: Credentials, headers = {}): Promise<void> {
    const client = open(ipAddress)
    await client.request(200, loginRequest(credentials, headers)).finally(() => client.close())
  }

  const users = (await addSessions(SESSIONS)).map((session, n) => {
    const operations = { check: checkSession([session]), refresh: withKey(refresh([session])) }
    return { client: open(home(n), 8), ...operations }
  })
  const residents = await inOrder(honest.slice(0, RESIDENTS), async (credentials, n) => {
    requireStatus(200, await sendFrom(home(n), url, loginRequest(credentials)))
    return { credentials, ipAddress: home(n) }
  })
  const devices = await inOrder(honest.slice(RESIDENTS, RESIDENTS + DEVICES), async (credentials, n) => {
    const { status, cookies } = await sendFrom(firstVisit(n), url, loginRequest(credentials, COOKIE_MODE))
    const device = cookies.find((cookie) => cookie.startsWith('__Host-device='))?.split(';')[0]
    if (!device) throw new Error(`a sign-in before the flood returned ${status} without a device cookie`)
    return { credentials, headers: { ...COOKIE_MODE, cookie: device } }
  })
  const senders = open(SENDERS, 16)
  const event = ingest(sender)
  return {
    'sign-in, known network': inTurn(residents, (one) => signIn(one.ipAddress, one.credentials)),
    'sign-in, known device': inTurn(devices, ({ credentials, headers }, n) =>
      signIn(deviceTravel(n), credentials, headers),
    ),
    'sign-in, new network': inTurn(honest.slice(RESIDENTS + DEVICES), (one, n) => signIn(travel(n), one)),
    'session check': inTurn(users, ({ client, check }) => perform(client, check)),
    refresh: inTurn(users, (one) => perform(one.client, one.refresh)),
    'signed event': () => perform(senders, event),
  }
}

/** With one key per token, so that a refresh can be retried after a lost response. */
function withKey(rotation: Operation): Operation {
  function request() {
    const next = rotation.request()
    return next && { ...next, headers: { 'idempotency-key': next.token?.slice(-40) ?? '' } }
  }
  return { ...rotation, request }
}

async function inOrder<T, R>(all: T[], act: (one: T, n: number) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (const [n, one] of all.entries()) results.push(await act(one, n))
  return results
}

function inTurn<T>(all: T[], use: (one: T, n: number) => Promise<void>): Work {
  let n = -1
  return () => {
    n += 1
    const one = all[n % all.length]
    if (one === undefined) throw new Error('the list is empty')
    return use(one, n)
  }
}

function summarize(kind: Kind, { succeeded, errors, histogram }: Measurement): Seen {
  const sent = [...errors.values()].reduce((sum, count) => sum + count, succeeded)
  return {
    kind,
    sent,
    succeeded,
    share: sent > 0 ? succeeded / sent : 0,
    p50: latencyAt(histogram, 50),
    p99: latencyAt(histogram, 99),
    errors: Object.fromEntries(errors),
  }
}
