import { randomBytes } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Failure } from '../../load-test/drive/failure.ts'
import type { Operation } from '../../load-test/drive/load.ts'
import { JSON_CONTENT, openClient, parseReply } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { ingestEvent, type Sender } from '../../load-test/operations/ingest.ts'
import { checkSession } from '../../load-test/operations/sessions.ts'
import { loopbackIpAddress } from '../networks.ts'
import type { Kind } from './kinds.ts'
import { DEADLINE_MS, type DeviceOwner, type Member } from './member.ts'

/** Everybody who sends the honest load. */
export interface HonestUsers {
  url: string
  members: Member[]
  deviceOwners: DeviceOwner[]
  /** Members who sign in from networks that are new to the service. */
  travellers: Credentials[]
  sender: Sender
}

const RefreshReply = TypeCompiler.Compile(
  Type.Object({ accessToken: Type.String(), refreshToken: Type.String() }),
)

const DEVICE_TRAVEL_BLOCK = 32
const TRAVEL_BLOCK = 48
const SENDER_IP_ADDRESS = loopbackIpAddress(18, 0)
const SENDER_CONNECTIONS = 16

/** One operation for each kind; each call does it for the next user. */
export function operationsOf(users: HonestUsers): Record<Kind, Operation> {
  const { url, members, deviceOwners, travellers, sender } = users
  const senderClient = openClient(url, {
    connections: SENDER_CONNECTIONS,
    deadlineMs: DEADLINE_MS,
    localAddress: SENDER_IP_ADDRESS,
  })
  const checks = members.map(({ client, session }) => checkSession(client, [session]))
  return {
    'sign-in, known network': inTurn(members, ({ credentials, localAddress }) =>
      signInFrom(url, localAddress, credentials),
    ),
    'sign-in, known device': inTurn(deviceOwners, ({ credentials, device }, n) =>
      signInFrom(url, loopbackIpAddress(DEVICE_TRAVEL_BLOCK, n), credentials, {
        'x-session-mode': 'cookie',
        ...(device && { cookie: device }),
      }),
    ),
    'sign-in, new network': inTurn(travellers, (credentials, n) =>
      signInFrom(url, loopbackIpAddress(TRAVEL_BLOCK, n), credentials),
    ),
    'session check': inTurn(checks, (check) => check() ?? Promise.resolve()),
    refresh: () => refreshNext(members),
    'signed event': ingestEvent(senderClient, sender),
  }
}

function inTurn<T>(all: T[], use: (one: T, n: number) => Promise<void>): Operation {
  let n = -1
  return () => {
    n += 1
    const one = all[n % all.length]
    return one === undefined ? null : use(one, n)
  }
}

/** On a connection of its own: who signs in has none yet. */
async function signInFrom(
  url: string,
  localAddress: string,
  credentials: Credentials,
  headers: Record<string, string> = {},
): Promise<void> {
  const client = openClient(url, { connections: 1, deadlineMs: DEADLINE_MS, localAddress })
  try {
    await client.request(200, {
      method: 'POST',
      path: '/api/auth/login',
      headers: { ...JSON_CONTENT, ...headers },
      body: JSON.stringify(credentials),
    })
  } finally {
    await client.close()
  }
}

/** Refreshes the session that was refreshed longest ago. */
async function refreshNext(members: Member[]): Promise<void> {
  const next = members.findIndex(({ isRefreshing }) => !isRefreshing)
  const [member] = next < 0 ? [] : members.splice(next, 1)
  if (!member) throw new Failure('no session is left to be refreshed')
  members.push(member)
  member.isRefreshing = true
  await rotate(member)
  member.isRefreshing = false
}

/** A member whose session has ended refreshes no more: the failure has been counted once. */
async function rotate(member: Member): Promise<void> {
  const { client, session, refreshKey } = member
  const issuedAt = Date.now()
  try {
    const reply = await client.request(200, {
      method: 'POST',
      path: '/api/auth/refresh',
      token: session.refreshToken,
      headers: { 'idempotency-key': refreshKey },
    })
    const { accessToken, refreshToken } = parseReply(RefreshReply, reply)
    Object.assign(session, { accessToken, accessTokenIssuedAt: issuedAt, refreshToken })
    member.refreshKey = randomBytes(9).toString('base64url')
  } catch (error) {
    const hasEnded = error instanceof Failure && error.code.startsWith('401')
    member.isRefreshing = hasEnded
    throw error
  }
}
