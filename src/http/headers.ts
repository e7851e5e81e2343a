import type { OutgoingHttpHeaders } from 'node:http'
import fastifyCors from '@fastify/cors'
import fastifyHelmet from '@fastify/helmet'
import fastify, { type FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

export const SESSION_COOKIE = '__Host-session'

/** With an origin, also the CORS headers: no hook sees the listener's own responses. */
type CommonHeaders = (requestId: string, origin?: string) => OutgoingHttpHeaders

const EXPOSED = ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id']

export async function createCommonHeaders(dashboardOrigins: string[]): Promise<CommonHeaders> {
  const security = await renderSecurityHeaders()
  return (requestId, origin = '') => ({
    ...security,
    ...(dashboardOrigins.includes(origin) && {
      vary: 'Origin',
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': EXPOSED.join(', '),
    }),
    'cache-control': 'no-store',
    'x-request-id': requestId,
  })
}

/** A separate app renders them once, with a 404. If helmet did it per request, one with a session would cost 45% more CPU. */
async function renderSecurityHeaders(): Promise<OutgoingHttpHeaders> {
  const app = fastify()
  await app.register(fastifyHelmet, {
    // Responses are data: they cannot run, load, or be framed, even if a browser renders one.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
        sandbox: [],
      },
    },
    strictTransportSecurity: { maxAge: 31_536_000, includeSubDomains: true },
    referrerPolicy: { policy: 'no-referrer' },
    frameguard: { action: 'deny' },
  })
  const { headers } = await app.inject('/')
  await app.close()
  const isOfAnswer = (name: string) => /^(content-(type|length)|date|connection)$/.test(name)
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOfAnswer(name)))
}

async function plugin(
  app: FastifyInstance,
  { commonHeaders, dashboardOrigins }: { commonHeaders: CommonHeaders; dashboardOrigins: string[] },
): Promise<void> {
  app.addHook('onRequest', (request, reply, done) => {
    reply.headers(commonHeaders(request.id))
    done()
  })
  if (dashboardOrigins.length > 0) {
    await app.register(fastifyCors, {
      // Given the list, the plugin would send other origins all CORS headers except the one with the origin.
      origin: (origin, callback) =>
        callback(null, origin !== undefined && dashboardOrigins.includes(origin) ? origin : false),
      credentials: true,
      // No `allowedHeaders`: any that a preflight names pass, because tracing libraries add their own.
      methods: ['GET', 'POST', 'PATCH', 'DELETE'],
      exposedHeaders: EXPOSED,
      maxAge: 600,
      // Otherwise the plugin would respond with plain text to an OPTIONS that is not a preflight.
      strictPreflight: false,
    })
  }
  let isClosing = false
  app.addHook('preClose', async () => {
    isClosing = true
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close')
    done(null, payload)
  })
}

export const headersPlugin = fp(plugin, { name: 'headers', dependencies: ['problems'] })

const RANGE = /([^\s,;"]+)((?:\s*;\s*[^\s,;="]+(?:=(?:[^\s,;"]+|"(?:[^"\\]|\\.)*"))?)*)/g
const WEIGHT = /;\s*q=([\d.]+)/

/** RFC 9110, section 12.5.1. Of equal weights, a named type wins, then the first, which is also the fallback. */
export function preferredType<Type extends string>(
  accept: string | undefined,
  types: readonly [Type, ...Type[]],
): Type {
  const weights = new Map<string, number>()
  for (const [, range = '', parameters = ''] of (accept ?? '').toLowerCase().matchAll(RANGE))
    weights.set(range, Number(WEIGHT.exec(parameters)?.[1] ?? 1))
  const ranked = types.map((type) => {
    const ranges = [type, type.replace(/\/.*/, '/*'), '*/*']
    const breadth = ranges.findIndex((range) => weights.has(range))
    return { type, breadth, weight: weights.get(ranges[breadth] ?? '') ?? 0 }
  })
  const [best] = ranked
    .filter(({ weight }) => weight > 0)
    .toSorted((one, other) => other.weight - one.weight || one.breadth - other.breadth)
  return best?.type ?? types[0]
}
