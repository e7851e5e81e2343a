/**
 * IP addresses of attackers and honest users. Attackers send through a trusted proxy, which can name any;
 * honest users connect from IP addresses of their own on loopback, which Linux allows for all of 127.0.0.0/8.
 */

/** The `X-Forwarded-For` of the nth of `count` networks. */
export type Networks = (n: number) => string

/** So many IPv4 addresses, in turn (RFC 2544's block for benchmarks, 198.18.0.0/15). */
export function ipv4Networks(count: number): Networks {
  if (count > 2 ** 17) throw new RangeError('198.18.0.0/15 has 131072 addresses')
  return (n) => {
    const at = n % count
    return `198.${18 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`
  }
}

/** All /64 of one IPv6 /48, in turn (RFC 3849's block for documentation). */
export function ipv6Networks(): Networks {
  return (n) => `2001:db8:7:${(n % 65_536).toString(16)}::${((n >> 16) + 1).toString(16)}`
}

/** What a balancer sends first on a connection of this client (PROXY protocol, version 1). */
export function clientLine(ipAddress: string): string {
  return ipAddress.includes(':')
    ? `PROXY TCP6 ${ipAddress} ::1 1 1\r\n`
    : `PROXY TCP4 ${ipAddress} 127.0.0.1 1 1\r\n`
}

/** The same for the client that a request names, as it would name it to the service itself. */
export function clientLineOf(request: string): string {
  const [, ipAddress] = /^X-Forwarded-For: (\S+)/im.exec(request) ?? []
  return ipAddress === undefined ? '' : clientLine(ipAddress)
}

/** The nth IP address of a /16 on loopback, from which somebody connects. `block` 0 has the service itself. */
export function loopbackIpAddress(block: number, n: number): string {
  const at = n % 65_024
  return `127.${block}.${Math.floor(at / 254)}.${(at % 254) + 1}`
}
