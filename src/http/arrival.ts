import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { faultOf } from '../edge/framing.ts'
import { MAX_HEADER_BYTES } from '../edge/listener.ts'
import type { Trust } from '../edge/network.ts'

/** Tells the proxy that a credential held, so that it knows this network from now on. The proxy removes the header. */
const PROVEN = 'x-network-proven'

/** What the public listener refuses before any other work, and what it tells the proxy. */
async function arrival(app: FastifyInstance, { isTrusted }: { isTrusted: Trust }): Promise<void> {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    const { remoteAddress: peer } = raw.socket
    // Behind a proxy that is not named, all clients are one.
    if (raw.headers['x-forwarded-for'] !== undefined && peer !== undefined && !isTrusted(peer)) {
      app.notice('X-Forwarded-For is ignored: TRUST_PROXY does not name this peer', { peer })
    }
    done(faultOf(raw, MAX_HEADER_BYTES) ?? undefined)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { schema, config } = request.routeOptions
    // Public routes declare that they ask for none. Sign-in is one of them: its credential is in the body.
    const asksForCredential = (schema?.security?.length ?? 0) > 0 || config.countedAs === 'sign_ins'
    if (asksForCredential && reply.statusCode < 300 && isTrusted(request.socket.remoteAddress)) {
      reply.header(PROVEN, '1')
    }
    done(null, payload)
  })
}

async function privateArrival(app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', ({ raw }, _reply, done) => done(faultOf(raw) ?? undefined))
}

const ARRIVAL = { name: 'arrival', dependencies: ['observe', 'headers', 'deadline', 'notices'] }

export const arrivalPlugin = fp(arrival, ARRIVAL)
export const privateArrivalPlugin = fp(privateArrival, ARRIVAL)
