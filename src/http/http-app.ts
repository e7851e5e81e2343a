import type { Server } from 'node:http'
import { AjvCompiler } from '@fastify/ajv-compiler'
import fastifyCookie from '@fastify/cookie'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { TSchema } from '@sinclair/typebox'
import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifySchemaCompiler,
  LogController,
} from 'fastify'
import fp from 'fastify-plugin'
import type { DestinationStream } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import { type BodyBudget, createBodyBudget, showBodies } from '../edge/bodies.ts'
import { faultOf, isDecodable } from '../edge/framing.ts'
import { MAX_HEADER_BYTES, serve } from '../edge/listener.ts'
import { createTrust, type Trust } from '../edge/network.ts'
import { memoryLimitsPlugin, noLimitsPlugin } from '../limits/memory.ts'
import { newId, type System } from '../system.ts'
import { bodyPlugin } from './body.ts'
import { deadlinePlugin } from './deadline.ts'
import { isEmail } from './email-address.ts'
import { createCommonHeaders, headersPlugin } from './headers.ts'
import { logSettings, noticesPlugin } from './logs.ts'
import { notFoundPlugin, UNREADABLE_PATH } from './not-found.ts'
import { createRequestMeasures, observePlugin } from './observe.ts'
import { openapiPlugin } from './openapi/plugin.ts'
import { pageFilesPlugin } from './pages.ts'
import { problemsPlugin } from './problems.ts'
import { buildSerializer, responsesPlugin } from './responses.ts'

export interface HttpOptions {
  config: Config
  system: System
  registry: Registry
  guide: string
  platformGuide: string
  logStream?: DestinationStream | undefined
  answerWithinMs?: number | undefined
}

export async function createHttpApps(options: HttpOptions) {
  const { config, registry, guide, platformGuide } = options
  const shared = { ...options, measures: createRequestMeasures(registry) }
  // Separate, so that clients cannot keep platform services out.
  const [budget, ofPlatform] = [createBodyBudget(), createBodyBudget()]
  showBodies(registry, [budget, ofPlatform])
  const app = await createApp({ ...shared, budget, isPublic: true })
  // It only sets cookies. session/credential.ts reads them.
  await app.register(fastifyCookie, { hook: false })
  await app.register(openapiPlugin, { listener: 'public', url: `${config.publicUrl}/api`, guide })
  const platform = await createApp({ ...shared, budget: ofPlatform, isPublic: false })
  // A proxy can serve it at a different URL.
  await platform.register(openapiPlugin, { listener: 'platform', url: '/', guide: platformGuide })
  return { app, platform }
}

interface AppOptions extends HttpOptions {
  measures: ReturnType<typeof createRequestMeasures>
  budget: BodyBudget
  /** Peers of the platform listener are our services: they do not forward for clients, and have no limits. */
  isPublic: boolean
}

async function createApp({ isPublic, ...options }: AppOptions) {
  const { config, system, registry, logStream, measures, budget, answerWithinMs } = options
  const { dashboardOrigins, hasPages } = isPublic ? config : { dashboardOrigins: [], hasPages: false }
  const docsUrl = config.hasPages ? `${config.publicUrl}/docs` : undefined
  const commonHeaders = await createCommonHeaders(dashboardOrigins)
  const isTrusted = createTrust(config.trustProxy)
  const app = fastify({
    logger: logSettings(config.logLevel, logStream),
    logController: new LogController({ disableRequestLogging: true }),
    // A logger per request would cost more than its one line.
    childLoggerFactory: (logger) => logger,
    genReqId: () => newId(system),
    bodyLimit: 16 * 1024,
    // A busy machine starts slowly, and all waits have their own bounds.
    pluginTimeout: 60_000,
    serverFactory: (handle): Server =>
      serve(handle, {
        ...{ system, registry, commonHeaders, docsUrl, isPublic },
        log: (): FastifyBaseLogger => app.log,
      }),
    trustProxy: isPublic && isTrusted,
    // edge/refusals.ts does this.
    clientErrorHandler: () => {},
    rewriteUrl: ({ url = '' }) => (isDecodable(url.split('?', 1).join()) ? url : UNREADABLE_PATH),
    // Schemas bound parameters, behind the guards. The router would respond without running a hook.
    routerOptions: { maxParamLength: 64 * 1024 },
    forceCloseConnections: 'idle',
    // While the service drains, requests succeed. headers.ts closes their connections, so that clients use a different instance.
    return503OnClosing: false,
    schemaController: { compilersFactory: { buildSerializer } },
  }).withTypeProvider<TypeBoxTypeProvider>()
  app.setValidatorCompiler(compileSchema)

  await app.register(observePlugin, { measures })
  // Before the preflight route: a route uses the error handler that is set when it is added.
  await app.register(problemsPlugin, { docsUrl })
  await app.register(headersPlugin, { commonHeaders, dashboardOrigins })
  await app.register(deadlinePlugin, { answerWithinMs })
  await app.register(noticesPlugin, { system })
  await app.register(isPublic ? memoryLimitsPlugin : noLimitsPlugin, { limits: config.limits, system })
  await app.register(isPublic ? arrivalPlugin : privateArrivalPlugin, { isTrusted })
  if (hasPages) await app.register(pageFilesPlugin)
  await app.register(notFoundPlugin, { hasPages })
  await app.register(bodyPlugin, { budget, isPublic })
  await app.register(responsesPlugin, { isLimited: isPublic })
  return app
}

/** Both apps share compiled schemas. Header names in them must be lower-case, because Fastify does not convert them here. */
const compileStrictly = AjvCompiler()(
  {},
  {
    customOptions: {
      // Validation never changes a value.
      coerceTypes: false,
      removeAdditional: false,
      useDefaults: false,
      allErrors: false,
      // For problems.ts: `verbose` adds the schema, which can have `x-must`, to a fault.
      keywords: ['x-must'],
      formats: { 'idn-email': isEmail },
      verbose: true,
    },
  },
)

const DECIMAL = /^(?:0|[1-9][0-9]*)$/

/** Converts integers of a query first. Ajv's coercion would also accept `0x10`, `1e1`, `+5`, and spaces. */
const compileSchema: FastifySchemaCompiler<TSchema> = (route) => {
  const validate = compileStrictly(route)
  const { schema, httpPart } = route
  if (httpPart !== 'querystring') return validate
  const fields: [string, TSchema][] = Object.entries(schema['properties'] ?? {})
  const integers = fields.filter(([, { type }]) => type === 'integer').map(([name]) => name)
  return (query) => {
    for (const name of integers) if (DECIMAL.test(query[name])) query[name] = Number(query[name])
    return validate(query) === true || { error: validate.errors ?? [] }
  }
}

/** Marks this network as known, for the proxy, which removes the header. */
const PROVEN = 'x-network-proven'

async function arrival(app: FastifyInstance, { isTrusted }: { isTrusted: Trust }): Promise<void> {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    const { remoteAddress: peer } = raw.socket
    // Behind a proxy that is not named, all clients count as one.
    if (raw.headers['x-forwarded-for'] !== undefined && peer !== undefined && !isTrusted(peer)) {
      app.notice('X-Forwarded-For is ignored: TRUST_PROXY does not name this peer', { peer })
    }
    done(faultOf(raw, MAX_HEADER_BYTES) ?? undefined)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { schema, config } = request.routeOptions
    // Public routes declare no security, or an optional one. Sign-in is one of them, with its credential in the body.
    const schemes = schema?.security ?? []
    const isGuarded = schemes.length > 0 && schemes.every((one) => Object.keys(one).length > 0)
    const asksForCredential = isGuarded || config.countedAs === 'sign_ins'
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

const arrivalPlugin = fp(arrival, ARRIVAL)
const privateArrivalPlugin = fp(privateArrival, ARRIVAL)
