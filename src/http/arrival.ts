import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Listener } from '../edge/listener.ts'

/** Tells a proxy that a credential held, so that its queues too let this network go first. It removes the header. */
const PROVEN = 'x-network-proven'

/** What the app does with what the listener knows about a request, and tells it about the answer. */
async function plugin(app: FastifyInstance, { listener }: { listener: Listener }): Promise<void> {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    // Behind a proxy that is not named, all clients are one.
    if (listener.ignoresForwarded(raw)) {
      const { remoteAddress: peer } = raw.socket
      app.notice('X-Forwarded-For is ignored: TRUST_PROXY does not name this peer', { peer })
    }
    done(listener.faultOf(raw) ?? undefined)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { schema, config } = request.routeOptions
    // Public routes declare that they ask for none. Sign-in is one of them: its credential is in the body.
    const asksForCredential = (schema?.security?.length ?? 0) > 0 || config.countedAs === 'sign_ins'
    if (asksForCredential && reply.statusCode < 300 && listener.prove(request.raw)) {
      reply.header(PROVEN, '1')
    }
    done(null, payload)
  })
}

export const arrivalPlugin = fp(plugin, {
  name: 'arrival',
  dependencies: ['observe', 'headers', 'deadline', 'notices'],
})
