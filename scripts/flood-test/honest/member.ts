import type { Client } from '../../kit/client.ts'
import { openClient, patient } from '../../kit/client.ts'
import { type Credentials, type LiveSession, loginRequest, openSession } from '../../kit/operations.ts'
import { loopbackIpAddress } from '../networks.ts'

/** What a client waits for an answer. */
export const DEADLINE_MS = 5_000

/** A member with a session, at home in a network of their own. */
export interface Member {
  credentials: Credentials
  localAddress: string
  /** Keeps connections open, as browsers do. */
  client: Client
  session: LiveSession
  /** Sent with each attempt to use the current refresh token, so that a lost answer can be repeated. */
  refreshKey: string
  isRefreshing: boolean
}

/** A member with a device on which they signed in before. */
export interface DeviceOwner {
  credentials: Credentials
  /** The cookie of the device; empty if the service sets none. */
  device: string
}

const HOME_BLOCK = 16
const DEVICE_BLOCK = 17

export async function moveIn(url: string, credentials: Credentials, n: number): Promise<Member> {
  const localAddress = loopbackIpAddress(HOME_BLOCK, n)
  const client = openClient(url, { connections: 8, deadlineMs: DEADLINE_MS, localAddress })
  const session = await openSession(client, credentials)
  return { credentials, localAddress, client, session, refreshKey: `${n}-0`, isRefreshing: false }
}

/** Signs in with a browser, and keeps the cookie that the service recognises it by. */
export async function setUpDevice(url: string, credentials: Credentials, n: number): Promise<DeviceOwner> {
  const client = openClient(url, { connections: 1, localAddress: loopbackIpAddress(DEVICE_BLOCK, n) })
  const request = loginRequest(credentials, { 'x-session-mode': 'cookie' })
  const { status, cookies, text } = await patient(client).send(request)
  await client.close()
  if (status !== 200) throw new Error(`a sign-in before the flood was answered ${status}: ${text}`)
  const device = cookies.find((cookie) => cookie.startsWith('__Host-device='))?.split(';')[0]
  return { credentials, device: device ?? '' }
}
