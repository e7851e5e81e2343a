import type { FastifyRequest } from 'fastify'
import { networkOfIpAddress } from '../edge/network.ts'
import type { LimitState } from '../errors.ts'
import type { System } from '../system.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The client's: see edge/forwarded.ts. */
    ipAddress: string
    /** Aborted, with the problem that is answered, when the request has taken too long: see http/deadline.ts. */
    overdue: AbortSignal
    /** What the response reports: the limit that a service noted, or else the one that a guard counted last. */
    limit: LimitState | null
    guardLimit: LimitState | null
  }
}

export interface Client {
  ipAddress: string
  network: string
  userAgent: string | undefined
  /** Aborted when the request has taken too long: see http/deadline.ts. */
  signal: AbortSignal
  /** The response reports this limit in its RateLimit headers; with null, that of the guards again. */
  noteLimit(limit: LimitState | null): void
}

/** `now` is in milliseconds. */
export interface Received {
  client: Client
  now: number
}

export function clientOf(request: FastifyRequest): Client {
  const { 'user-agent': userAgent } = request.headers
  const { overdue: signal } = request
  const noteLimit = (limit: LimitState | null) => {
    request.limit = limit
  }
  return { ipAddress: request.ipAddress, network: networkOf(request), userAgent, signal, noteLimit }
}

export function receivedOf(request: FastifyRequest, { system }: { system: Pick<System, 'now'> }): Received {
  return { client: clientOf(request), now: system.now() }
}

/** An IPv4 address, or an IPv6 /64, since one customer has a whole /64. */
export function networkOf(request: Pick<FastifyRequest, 'ipAddress'>): string {
  return networkOfIpAddress(request.ipAddress)
}
