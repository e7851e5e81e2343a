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
  /** The texts at the beginning of the OpenAPI documents. */
  guide: string
  platformGuide: string
  /** Where log lines go; standard output by default. */
  logStream?: DestinationStream | undefined
  /** How long a request may take, in milliseconds: see deadline.ts. */
  answerWithinMs?: number | undefined
}

/** The apps of a process, without routes: that of the public listener, and that of the platform's. */
export async function createHttpApps(options: HttpOptions) {
  const { config, registry, guide, platformGuide } = options
  const shared = {
    ...options,
    measures: createRequestMeasures(registry),
  }
  // Apart, so that clients cannot keep services of the platform out.
  const [budget, ofPlatform] = [createBodyBudget(), createBodyBudget()]
  showBodies(registry, [budget, ofPlatform])
  const app = await createApp({ ...shared, budget, isPublic: true })
  // It only sets cookies. session/credential.ts reads them.
  await app.register(fastifyCookie, { hook: false })
  await app.register(openapiPlugin, { listener: 'public', url: `${config.publicUrl}/api`, guide })
  const platform = await createApp({ ...shared, budget: ofPlatform, isPublic: false })
  // Behind a proxy, it has other addresses.
  await platform.register(openapiPlugin, { listener: 'platform', url: '/', guide: platformGuide })
  return { app, platform }
}

interface AppOptions extends HttpOptions {
  measures: ReturnType<typeof createRequestMeasures>
  budget: BodyBudget
  /** The peers of the platform listener are the platform's own: none forwards for a client, and no limit counts them. */
  isPublic: boolean
}

/** With everything that applies to all requests of a listener. */
async function createApp({ isPublic, ...options }: AppOptions) {
  const { config, system, registry, logStream, measures, budget, answerWithinMs } = options
  const { dashboardOrigins, hasPages } = isPublic ? config : { dashboardOrigins: [], hasPages: false }
  const commonHeaders = await createCommonHeaders(dashboardOrigins)
  const isTrusted = createTrust(config.trustProxy)
  const app = fastify({
    logger: logSettings(config.logLevel, logStream),
    logController: new LogController({ disableRequestLogging: true }),
    // A logger per request would cost more than the one line that it writes.
    childLoggerFactory: (logger) => logger,
    genReqId: () => newId(system),
    bodyLimit: 16 * 1024,
    // The start of a busy machine takes long, and what it waits for has bounds of its own.
    pluginTimeout: 60_000,
    serverFactory: (handle): Server =>
      serve(handle, { system, registry, commonHeaders, log: (): FastifyBaseLogger => app.log, isPublic }),
    trustProxy: isPublic && isTrusted,
    // The listener answers the requests that Node's parser refuses, in place of Fastify.
    clientErrorHandler: () => {},
    rewriteUrl: ({ url = '' }) => (isDecodable(url.split('?', 1).join()) ? url : UNREADABLE_PATH),
    // The schemas of parameters bound them, behind the guards. The router would answer without any hook.
    routerOptions: { maxParamLength: 64 * 1024 },
    forceCloseConnections: 'idle',
    // A request that arrives while the service drains is answered as usual. Then its connection is closed.
    return503OnClosing: false,
    schemaController: { compilersFactory: { buildSerializer } },
  }).withTypeProvider<TypeBoxTypeProvider>()
  app.setValidatorCompiler(compileSchema)

  await app.register(observePlugin, { measures })
  // Before the route of preflights: a route uses the error handler that is set when it is added.
  await app.register(problemsPlugin)
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

/**
 * Compiles each schema once a process: Ajv keeps them by their object. The names of headers in them must be in lower case,
 * since Fastify leaves them as they are then.
 */
const compileStrictly = AjvCompiler()(
  {},
  {
    customOptions: {
      // Validation never changes a value.
      coerceTypes: false,
      removeAdditional: false,
      useDefaults: false,
      allErrors: false,
      // What schemas say besides. `verbose` adds the schema to a fault, for problems.ts.
      keywords: ['x-must'],
      formats: { 'idn-email': isEmail },
      verbose: true,
    },
  },
)

const DECIMAL = /^(?:0|[1-9][0-9]*)$/

/** A query is text, so its whole numbers are converted first. Ajv would also take `0x10`, `1e1`, `+5`, and spaces for them. */
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

const arrivalPlugin = fp(arrival, ARRIVAL)
const privateArrivalPlugin = fp(privateArrival, ARRIVAL)
