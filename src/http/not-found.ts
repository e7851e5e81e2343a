import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'
import { preferredType } from './headers.ts'
import { sendPage } from './pages.ts'

/** Replaces a path with a broken %-escape, to which the router would respond without running a hook. No route has it. */
export const UNREADABLE_PATH = '/%25'

async function plugin(app: FastifyInstance, { hasPages }: { hasPages: boolean }): Promise<void> {
  const routes: { pattern: RegExp; methods: string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    // The CORS plugin's route for preflights.
    if (url === '*') return
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+')}$`)
    routes.push({ pattern, methods: [method].flat() })
  })

  function notFound({ url, originalUrl, method }: FastifyRequest): Problem {
    if (url === UNREADABLE_PATH && originalUrl !== UNREADABLE_PATH)
      return new Problem('invalid_request', 'The path contains invalid percent-encoding. Encode it as UTF-8.')
    const [path = ''] = url.split('?')
    const allowed = routes.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods)
    if (allowed.length === 0 && method !== 'TRACE')
      return new Problem('not_found', 'This path does not exist. Check the URL.')
    const allow = [...new Set(allowed)].sort().join(', ')
    const detail = `This path does not support ${method}.${allow && ` Supported methods: ${allow}.`}`
    return new Problem('method_not_allowed', detail, { headers: { allow } })
  }

  // Before the body is read: its form does not matter for an unknown path.
  app.addHook('onRequest', (request, _reply, done) => {
    if (!request.is404) return done()
    app.limits.anonymous(request).then(() => {
      const problem = notFound(request)
      if (hasPages && problem.code === 'not_found' && isForPerson(request)) done()
      else done(problem)
    }, done)
  })
  // For pages, and for an OPTIONS that the CORS plugin did not handle.
  app.setNotFoundHandler(async (request, reply) => {
    if (hasPages && isForPerson(request)) return await sendPage(request, reply.code(404))
    throw notFound(request)
  })
}

const TYPES = ['application/problem+json', 'application/json', 'text/html'] as const

function isForPerson({ method, url, headers }: FastifyRequest): boolean {
  if ((method !== 'GET' && method !== 'HEAD') || /^\/api(?:[/?]|$)/.test(url)) return false
  return preferredType(headers.accept, TYPES) === 'text/html'
}

export const notFoundPlugin = fp(plugin, {
  name: 'not-found',
  dependencies: ['headers', 'arrival', 'memory-limits'],
})
