import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import proxyAddr from '@fastify/proxy-addr'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { toNetworks } from '../config-forms.ts'
import { withoutPort } from '../limits/client.ts'

type Trust = (ipAddress: string | undefined) => boolean

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
export function readIpAddress(message: IncomingMessage, isTrusted: Trust): string {
  const { headers, socket } = message
  const { remoteAddress: peer = 'unknown' } = socket
  if (headers['x-forwarded-for'] === undefined || !isTrusted(peer)) return peer
  const forwarded = withoutPort(proxyAddr(message, isTrusted))
  return isIP(forwarded) ? forwarded : peer
}

/** Says in the log that a header is ignored: behind a proxy that is not named, all clients are one. */
async function plugin(app: FastifyInstance, { trustProxy }: { trustProxy: string[] }): Promise<void> {
  const trusts = createTrust(trustProxy)
  app.addHook('onRequest', async ({ headers, socket: { remoteAddress: peer } }) => {
    if (headers['x-forwarded-for'] === undefined || peer === undefined || trusts(peer)) return
    app.notice('X-Forwarded-For is ignored: TRUST_PROXY does not name this peer', { peer })
  })
}

export const forwardedPlugin = fp(plugin, { name: 'forwarded', dependencies: ['notices'] })
