import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { toNetworks } from '../config/forms.ts'

export type Trust = (ipAddress: string | undefined) => boolean

/**
 * Whether X-Forwarded-For is believed of a peer: TRUST_PROXY names its IP address or network. The peer of a connection
 * that was reset has no address.
 */
export function createTrust(trustProxy: string[]): Trust {
  const networks = toNetworks(trustProxy)
  return (forwarded) => {
    if (forwarded === undefined) return false
    const ipAddress = withoutPort(forwarded)
    return networks.check(ipAddress, ipAddress.includes(':') ? 'ipv6' : 'ipv4')
  }
}

/** The client's IP address. If a proxy forwards a value that is not one, the proxy's IP address counts. */
export function readIpAddress({ ip, socket }: FastifyRequest): string {
  const { remoteAddress: peer = 'unknown' } = socket
  const forwarded = withoutPort(ip)
  return isIP(forwarded) ? forwarded : peer
}

/** An IP address without the port that some proxies add: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(forwarded = ''): string {
  return /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d{1,5})?$/i.exec(forwarded)?.slice(1).join('') ?? forwarded
}
