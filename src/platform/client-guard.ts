import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { headerValues } from '../edge/framing.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { addProblems } from '../http/responses.ts'
import { createClientCheck, type Scope } from './clients.ts'
import type { PlatformClient } from './repository.ts'

declare module 'fastify' {
  interface FastifyRequest {
    platformClient: PlatformClient
    /** Checks the client again after a wait. @throws Problem invalid_client */
    confirmClient(): Promise<void>
  }
}

/** Admits platform clients, by HTTP Basic (RFC 6749, section 2.3.1). */
async function plugin(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  const { system } = context
  const check = createClientCheck({
    ...context,
    onFailure: (cause) => app.notice('the last use of a platform client could not be recorded', { cause }),
  })
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ platformClient: [] }]
    addProblems(route.schema, ['invalid_client'])
  })
  app.decorateRequest('platformClient')
  app.decorateRequest('confirmClient', function (this: FastifyRequest) {
    return authenticate(this)
  })
  app.addHook('onRequest', authenticate)

  async function authenticate(request: FastifyRequest): Promise<void> {
    const given = readBasic(request)
    const client = given && (await check(given.id, given.secret, system.now()))
    if (!client)
      throw new Problem(
        'invalid_client',
        'The ID or secret of the platform client is missing or wrong. Send both as HTTP Basic.',
      )
    request.platformClient = client
    request.logContext.clientId = client.id
  }
}

function readBasic({ raw }: FastifyRequest): { id: string; secret: string } | null {
  const [header = '', ...others] = headerValues(raw, 'authorization')
  const [, credentials] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(header) ?? []
  if (credentials === undefined || others.length > 0) return null
  const [id = '', ...rest] = Buffer.from(credentials, 'base64').toString().split(':')
  try {
    return { id: decodeForm(id), secret: decodeForm(rest.join(':')) }
  } catch {
    return null
  }
}

/** Form-encoded (RFC 6749, section 2.3.1): some clients encode more than they must. @throws URIError */
function decodeForm(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '))
}

async function scope(app: FastifyInstance, { scope }: { scope: Scope }): Promise<void> {
  app.addHook('onRoute', ({ schema }) => addProblems(schema, ['permission_denied']))
  app.addHook('onRequest', async ({ platformClient: { scopes } }) => {
    if (scopes.includes(scope)) return
    throw new Problem(
      'permission_denied',
      `This requires the scope ${scope}, which this client does not have.`,
    )
  })
}

export const clientGuard = fp(plugin, {
  name: 'client-guard',
  dependencies: ['observe', 'notices', 'responses'],
})
export const scopeGuard = fp(scope, { name: 'scope-guard', dependencies: ['client-guard'] })
