import { AjvCompiler } from '@fastify/ajv-compiler'
import fastifyCookie from '@fastify/cookie'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, { LogController } from 'fastify'
import type { DestinationStream } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from '../config.ts'
import { createListener } from '../edge/listener.ts'
import { memoryLimitsPlugin } from '../limits/memory.ts'
import { newId, type System } from '../system.ts'
import { arrivalPlugin } from './arrival.ts'
import { bodyPlugin } from './body.ts'
import { corsPlugin, createCommonHeaders, headersPlugin } from './headers.ts'
import { logSettings, noticesPlugin } from './logs.ts'
import { notFoundPlugin } from './not-found.ts'
import { observePlugin } from './observe.ts'
import { openapiPlugin } from './openapi/plugin.ts'
import { pageFilesPlugin } from './pages.ts'
import { answerRouterError, problemsPlugin } from './problems.ts'
import { buildSerializer, responsesPlugin } from './responses.ts'

export interface HttpOptions {
  config: Config
  system: System
  registry: Registry
  /** The text at the beginning of the OpenAPI document. */
  guide: string
  /** Where log lines go; standard output by default. */
  logStream?: DestinationStream | undefined
}

/**
 * Compiles each schema once a process: Ajv keeps them by their object. The names of headers in them must be in lower case,
 * since Fastify leaves them as they are then.
 */
const buildValidator = AjvCompiler()

/** A Fastify app with everything that applies to all requests, and without routes. */
export async function createHttpApp({ config, system, registry, guide, logStream }: HttpOptions) {
  const commonHeaders = await createCommonHeaders()
  const listener = createListener({ ...config, system, registry, commonHeaders, log: () => app.log })
  const app = fastify({
    logger: logSettings(config.logLevel, logStream),
    logController: new LogController({ disableRequestLogging: true }),
    // A logger per request would cost more than the one line that it writes.
    childLoggerFactory: (logger) => logger,
    genReqId: () => newId(system),
    bodyLimit: 16 * 1024,
    // The start of a busy machine takes long, and what it waits for has bounds of its own.
    pluginTimeout: 60_000,
    serverFactory: listener.serve,
    // The listener answers the requests that Node's parser refuses, in place of Fastify.
    clientErrorHandler: () => {},
    frameworkErrors: answerRouterError(commonHeaders),
    forceCloseConnections: 'idle',
    // A request that arrives while the service drains is answered as usual. Then its connection is closed.
    return503OnClosing: false,
    schemaController: { compilersFactory: { buildSerializer, buildValidator } },
    ajv: {
      customOptions: {
        // Validation never changes a value.
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        // What schemas say besides. `verbose` adds the schema to a fault, for to-problem.ts.
        keywords: ['x-must', 'x-integer'],
        verbose: true,
      },
    },
  }).withTypeProvider<TypeBoxTypeProvider>()

  await app.register(observePlugin, { registry, listener })
  await app.register(headersPlugin, { commonHeaders })
  await app.register(corsPlugin, { dashboardOrigins: config.dashboardOrigins })
  await app.register(noticesPlugin, { system })
  await app.register(memoryLimitsPlugin, { limits: config.limits, system })
  await app.register(arrivalPlugin, { listener })
  await app.register(problemsPlugin)
  if (config.hasPages) await app.register(pageFilesPlugin)
  await app.register(notFoundPlugin, { hasPages: config.hasPages })
  await app.register(bodyPlugin, { listener })
  // It only sets cookies. session/cookie.ts reads them.
  await app.register(fastifyCookie, { hook: false })
  await app.register(responsesPlugin)
  await app.register(openapiPlugin, { publicUrl: config.publicUrl, guide })
  return app
}
