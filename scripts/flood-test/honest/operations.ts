import { randomBytes } from 'node:crypto'
import { openClient } from '../../kit/client.ts'
import type { Work } from '../../kit/drive.ts'
import { Failure } from '../../kit/errors.ts'
import { ingest, type Sender } from '../../kit/events.ts'
import { type Credentials, checkSession, loginRequest, perform, refresh } from '../../kit/operations.ts'
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

const DEVICE_TRAVEL_BLOCK = 32
const TRAVEL_BLOCK = 48
const SENDER_IP_ADDRESS = loopbackIpAddress(18, 0)
const SENDER_CONNECTIONS = 16

/** One operation for each kind; each call does it for the next user. */
export function operationsOf(users: HonestUsers): Record<Kind, Work> {
  const { url, members, deviceOwners, travellers, sender } = users
  const senderClient = openClient(url, {
    connections: SENDER_CONNECTIONS,
    deadlineMs: DEADLINE_MS,
    localAddress: SENDER_IP_ADDRESS,
  })
  const checks = members.map(({ client, session }) => ({ client, check: checkSession([session]) }))
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
    'session check': inTurn(checks, ({ client, check }) => perform(client, check)),
    refresh: () => refreshNext(members),
    'signed event': inTurn([ingest(sender)], (event) => perform(senderClient, event)),
  }
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

/** On a connection of its own: who signs in has none yet. */
async function signInFrom(
  url: string,
  localAddress: string,
  credentials: Credentials,
  headers: Record<string, string> = {},
): Promise<void> {
  const client = openClient(url, { connections: 1, deadlineMs: DEADLINE_MS, localAddress })
  try {
    await client.request(200, loginRequest(credentials, headers))
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
  const rotation = refresh([session])
  const withKey = () => {
    const request = rotation.request()
    return request && { ...request, headers: { 'idempotency-key': refreshKey } }
  }
  try {
    await perform(client, { ...rotation, request: withKey })
    member.refreshKey = randomBytes(9).toString('base64url')
  } catch (error) {
    const hasEnded = error instanceof Failure && error.code.startsWith('401')
    member.isRefreshing = hasEnded
    throw error
  }
}
