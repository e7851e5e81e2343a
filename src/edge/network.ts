import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import { LruMap } from 'toad-cache'
import { toNetworks } from '../config/forms.ts'

/** Networks as limits and queues count them. A text that is not an IP address stays unchanged. */

/** An IPv4 address or an IPv6 /64, because a customer gets at least a /64. */
export function networkOfIpAddress(ipAddress: string): string {
  return normalize(ipAddress, 64)
}

/** An IPv4 address or an IPv6 /48, because one customer can have all /64s of a /48. */
export function widerNetworkOf(network: string): string {
  return normalize(network, 48)
}

const computed = { 48: new LruMap<string>(10_000), 64: new LruMap<string>(10_000) }

function normalize(ipAddress: string, bits: 48 | 64): string {
  if (isIP(ipAddress) !== 6) return ipAddress
  const cached = computed[bits].get(ipAddress)
  if (cached !== undefined) return cached
  const network = ipv6Network(ipAddress, bits)
  computed[bits].set(ipAddress, network)
  return network
}

/** In the form of RFC 5952. An IPv4-mapped address becomes the IPv4 address (RFC 4291, section 2.5.5.2). */
function ipv6Network(ipAddress: string, bits: 48 | 64): string {
  const [withoutZone = ''] = ipAddress.split('%')
  const [start = '', end] = formatIpv6(withoutZone).split('::')
  const groupsOf = (part: string) => (part === '' ? [] : part.split(':'))
  const [first, last] = [groupsOf(start), groupsOf(end ?? '')]
  const groups = [...first, ...Array<string>(8 - first.length - last.length).fill('0'), ...last]
  const isMapped = groups.slice(0, 6).join(':') === '0:0:0:0:0:ffff'
  if (!isMapped) return formatIpv6(`${groups.slice(0, bits / 16).join(':')}::`)
  const bytes = groups.slice(6).flatMap((group) => {
    const value = Number.parseInt(group, 16)
    return [value >> 8, value & 255]
  })
  return bytes.join('.')
}

/** The URL parser writes the form of RFC 5952, much faster than a library. */
function formatIpv6(ipAddress: string): string {
  return new URL(`http://[${ipAddress}]`).hostname.slice(1, -1)
}

export type Trust = (ipAddress: string | undefined) => boolean

/** Whether to trust a peer's X-Forwarded-For. A peer that reset its connection has no IP address. */
export function createTrust(trustProxy: string[]): Trust {
  const networks = toNetworks(trustProxy)
  return (forwarded) => {
    if (forwarded === undefined) return false
    const ipAddress = withoutPort(forwarded)
    return networks.check(ipAddress, ipAddress.includes(':') ? 'ipv6' : 'ipv4')
  }
}

/** If a proxy forwards a value that is not an IP address, the proxy's own counts. */
export function readIpAddress({ ip, socket }: FastifyRequest): string {
  const { remoteAddress: peer = 'unknown' } = socket
  const forwarded = withoutPort(ip)
  return isIP(forwarded) ? forwarded : peer
}

/** Some proxies add a port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(forwarded = ''): string {
  return /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d{1,5})?$/i.exec(forwarded)?.slice(1).join('') ?? forwarded
}
