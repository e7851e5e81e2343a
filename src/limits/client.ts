import { isIP } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'

/** Where a request comes from, as logs, limits and the audit trail know it. */
export interface Client {
  ipAddress: string
  network: string
  userAgent: string | undefined
}

export function clientOf(request: FastifyRequest): Client {
  const { 'user-agent': userAgent } = request.headers
  return { ipAddress: ipAddressOf(request), network: networkOf(request), userAgent }
}

/** The IP address of the client. A proxy that passes on something else as one is not believed. */
export function ipAddressOf({ ip, socket }: FastifyRequest): string {
  return isIP(ip) ? ip : (socket.remoteAddress ?? 'unknown')
}

/** The network that limits count: an IPv4 address or an IPv6 /64, since one customer has a whole /64. */
export function networkOf(request: FastifyRequest): string {
  return normalizeIP(ipAddressOf(request), 64)
}
