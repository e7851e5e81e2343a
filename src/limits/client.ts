import { isIP } from 'node:net'
import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'
import { LruMap } from 'toad-cache'

/** Where a request comes from, for limits, sessions and the audit trail. */
export interface Client {
  ipAddress: string
  network: string
  userAgent: string | undefined
}

export function clientOf(request: FastifyRequest): Client {
  const { 'user-agent': userAgent } = request.headers
  return { ipAddress: ipAddressOf(request), network: networkOf(request), userAgent }
}

/** The client's IP address. If a proxy forwards a value that is not one, the proxy's IP address counts. */
export function ipAddressOf({ ip, socket }: FastifyRequest): string {
  const ipAddress = withoutPort(ip)
  return isIP(ipAddress) ? ipAddress : (socket.remoteAddress ?? 'unknown')
}

/** An IP address without the port that some proxies add: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
export function withoutPort(forwarded: string): string {
  return /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d{1,5})?$/i.exec(forwarded)?.slice(1).join('') ?? forwarded
}

/** The network that limits count: an IPv4 address, or an IPv6 /64, since one customer has a whole /64. */
export function networkOf(request: FastifyRequest): string {
  return networkOfIpAddress(ipAddressOf(request))
}

export function networkOfIpAddress(ipAddress: string): string {
  return normalize(ipAddress, 64)
}

/** The IPv6 /48 of a network, since one customer can have all of its /64; an IPv4 address stays as it is. */
export function widerNetworkOf(network: string): string {
  return normalize(network, 48)
}

/** The networks that were computed last: each request needs its network several times, and IPv6 takes 20 µs. */
const normalized = { 48: new LruMap<string>(10_000), 64: new LruMap<string>(10_000) }

function normalize(ipAddress: string, bits: 48 | 64): string {
  if (isIP(ipAddress) === 4) return ipAddress
  const known = normalized[bits].get(ipAddress)
  if (known !== undefined) return known
  const network = normalizeIP(ipAddress, bits)
  normalized[bits].set(ipAddress, network)
  return network
}
