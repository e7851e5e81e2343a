import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { networkOfIpAddress } from './network.ts'

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

/** Of requests that have arrived, as the listener has read it: see http/forwarded.ts. */
const ipAddresses = new WeakMap<IncomingMessage, string>()

export function setIpAddress(message: IncomingMessage, ipAddress: string): void {
  ipAddresses.set(message, ipAddress)
}

/** The client's IP address. */
export function ipAddressOf({ raw }: Pick<FastifyRequest, 'raw'>): string {
  return ipAddresses.get(raw) ?? raw.socket.remoteAddress ?? 'unknown'
}

/** An IP address without the port that some proxies add: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
export function withoutPort(forwarded: string): string {
  return /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d{1,5})?$/i.exec(forwarded)?.slice(1).join('') ?? forwarded
}

/** The network that limits count: an IPv4 address, or an IPv6 /64, since one customer has a whole /64. */
export function networkOf(request: FastifyRequest): string {
  return networkOfIpAddress(ipAddressOf(request))
}
