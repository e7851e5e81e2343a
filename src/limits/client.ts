import type { FastifyRequest } from 'fastify'
import { ipAddressOfMessage, networkOfIpAddress } from '../edge/network.ts'

export interface Client {
  ipAddress: string
  network: string
  userAgent: string | undefined
  /** Aborted when the request has taken too long: see http/deadline.ts. */
  signal: AbortSignal
}

/** `now` is in milliseconds. */
export interface Received {
  client: Client
  now: number
}

export function clientOf(request: FastifyRequest): Client {
  const { 'user-agent': userAgent } = request.headers
  const { overdue: signal } = request
  return { ipAddress: ipAddressOf(request), network: networkOf(request), userAgent, signal }
}

export function ipAddressOf({ raw }: Pick<FastifyRequest, 'raw'>): string {
  return ipAddressOfMessage(raw)
}

/** An IPv4 address, or an IPv6 /64, since one customer has a whole /64. */
export function networkOf(request: FastifyRequest): string {
  return networkOfIpAddress(ipAddressOf(request))
}
