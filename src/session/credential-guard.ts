import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Context } from '../context.ts'
import { addProblems } from '../http/responses.ts'
import { requireSameSiteToChange as checkSite, expireRefusedCookie } from './cookie.ts'
import { CREDENTIAL_PROBLEMS, type Credential, readCredential } from './credential.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Not yet known to be that of a live session. Set by the credential guard. */
    credential: Credential
  }
}

/** Admits genuine credentials of sessions, live or not: the statement of the route must refuse one that is not live. */
async function plugin(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  const { config, system, tokens } = context
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ accessToken: [] }, { sessionCookie: [] }]
    addProblems(route.schema, CREDENTIAL_PROBLEMS)
  })
  app.addHook('onSend', expireRefusedCookie)
  app.decorateRequest('credential')
  app.addHook('onRequest', async (request: FastifyRequest) => {
    const credential = await readCredential(request, { tokens, config, checkSite }, system.now())
    request.credential = credential
    if ('claims' in credential) {
      const { cid: companyId, sub: userId, sid: sessionId } = credential.claims
      Object.assign(request.logContext, { companyId, userId, sessionId })
    }
  })
}

export const credentialGuard = fp(plugin, {
  name: 'credential-guard',
  dependencies: ['memory-limits', 'observe', 'responses'],
})
