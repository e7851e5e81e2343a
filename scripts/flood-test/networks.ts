import { type Answer, type Client, openClient, patient, type Request } from '../kit/client.ts'
import { clientLine } from '../kit/haproxy.ts'

/** The proxy treats this program as a balancer that names its clients, so requests can come from any IP address. */

export type Networks = (n: number) => string

/** Up to 131,072 IPv4 addresses in turn (RFC 2544's block for benchmarks, 198.18.0.0/15). */
export function ipv4Networks(count: number): Networks {
  return (n) => {
    const at = n % count
    return `198.${18 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`
  }
}

/** All /64 of one IPv6 /48 in turn (RFC 3849's block for documentation). */
export const ipv6Networks: Networks = (n) =>
  `2001:db8:7:${(n % 65_536).toString(16)}::${((n >> 16) + 1).toString(16)}`

interface From {
  connections?: number
  deadlineMs?: number
}

export function openFrom(ipAddress: string, url: string, { connections = 1, ...rest }: From = {}): Client {
  return openClient(url, { connections, firstLine: clientLine(ipAddress), ...rest })
}

/** Uses a new connection, and retries while the service is overloaded. */
export async function sendFrom(ipAddress: string, url: string, request: Request): Promise<Answer> {
  const client = openFrom(ipAddress, url)
  return await patient(client)
    .send(request)
    .finally(() => client.close())
}
