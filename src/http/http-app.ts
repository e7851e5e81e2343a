import type { Server } from 'node:http'
import { AjvCompiler, type Options } from '@fastify/ajv-compiler'
import fastifyCookie from '@fastify/cookie'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import type { DestinationStream } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import { type BodyBudget, createBodyBudget } from '../edge/bodies.ts'
import { isDecodable } from '../edge/framing.ts'
import { serve } from '../edge/listener.ts'
import { createTrust } from '../edge/network.ts'
import { memoryLimitsPlugin, noLimitsPlugin } from '../limits/memory.ts'
import { newId, type System } from '../system.ts'
import { arrivalPlugin, privateArrivalPlugin } from './arrival.ts'
import { bodyPlugin } from './body.ts'
import { deadlinePlugin } from './deadline.ts'
import { isEmail } from './email-address.ts'
import { corsPlugin, createCommonHeaders, headersPlugin } from './headers.ts'
import { logSettings, noticesPlugin } from './logs.ts'
import { notFoundPlugin, UNREADABLE_PATH } from './not-found.ts'
import { createRequestMeasures, observePlugin, type RequestMeasures } from './observe.ts'
import { openapiPlugin } from './openapi/plugin.ts'
import { pageFilesPlugin } from './pages.ts'
import { problemsPlugin } from './problems.ts'
import { queryIntegersPlugin } from './query-integers.ts'
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

/**
 * Compiles each schema once a process: Ajv keeps them by their object. The names of headers in them must be in lower case,
 * since Fastify leaves them as they are then.
 */
const compilerOf = AjvCompiler()

const AJV: Options = {
  // Validation never changes a value, except in queries.
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: false,
  allErrors: false,
  // What schemas say besides. `verbose` adds the schema to a fault, for to-problem.ts.
  keywords: ['x-must'],
  formats: { 'idn-email': isEmail },
  verbose: true,
}

/** A query is text, so its numbers are converted. */
const buildValidator: typeof compilerOf = (externalSchemas, options) => {
  const strict = compilerOf(externalSchemas, options)
  const ofQuery = compilerOf(externalSchemas, { customOptions: { ...AJV, coerceTypes: true } })
  return (route, meta) => (Object(route).httpPart === 'querystring' ? ofQuery : strict)(route, meta)
}

/** The apps of a process, without routes: that of the public listener, and that of the platform's. */
export async function createHttpApps(options: HttpOptions) {
  const { config, registry, guide, platformGuide } = options
  const shared = {
    ...options,
    measures: createRequestMeasures(registry),
    budget: createBodyBudget(registry),
  }
  const app = await createApp({ ...config, ...shared, isPublic: true })
  // It only sets cookies. session/credential.ts reads them.
  await app.register(fastifyCookie, { hook: false })
  await app.register(openapiPlugin, { listener: 'public', url: `${config.publicUrl}/api`, guide })

  const platform = await createApp({ ...shared, isPublic: false, dashboardOrigins: [], hasPages: false })
  // Behind a proxy, it has other addresses.
  await platform.register(openapiPlugin, { listener: 'platform', url: '/', guide: platformGuide })
  return { app, platform }
}

interface AppOptions extends HttpOptions {
  measures: RequestMeasures
  budget: BodyBudget
  /** Of the platform listener, the peers are the platform's own: none forwards for a client, and no limit counts them. */
  isPublic: boolean
  dashboardOrigins: string[]
  hasPages: boolean
}

/** With everything that applies to all requests of a listener. */
async function createApp({
  config,
  system,
  registry,
  logStream,
  answerWithinMs,
  measures,
  budget,
  isPublic,
  dashboardOrigins,
  hasPages,
}: AppOptions) {
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
    schemaController: { compilersFactory: { buildSerializer, buildValidator } },
    ajv: { customOptions: AJV },
  }).withTypeProvider<TypeBoxTypeProvider>()

  await app.register(observePlugin, { measures })
  await app.register(headersPlugin, { commonHeaders })
  // Before the route of preflights: a route uses the error handler that is set when it is added.
  await app.register(problemsPlugin)
  await app.register(corsPlugin, { dashboardOrigins })
  await app.register(deadlinePlugin, { answerWithinMs })
  await app.register(noticesPlugin, { system })
  await app.register(isPublic ? memoryLimitsPlugin : noLimitsPlugin, { limits: config.limits, system })
  await app.register(isPublic ? arrivalPlugin : privateArrivalPlugin, { isTrusted })
  if (hasPages) await app.register(pageFilesPlugin)
  await app.register(notFoundPlugin, { hasPages })
  await app.register(bodyPlugin, { budget, isPublic })
  await app.register(queryIntegersPlugin)
  await app.register(responsesPlugin, { isLimited: isPublic })
  return app
}
