import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { headerValues } from '../edge/framing.ts'
import { inWords } from '../errors.ts'
import { JSON_TYPE, parseBody } from '../http/body.ts'
import type { Context } from '../http/context.ts'
import { toProblem } from '../http/problems.ts'
import { addProblems } from '../http/responses.ts'
import { byNetwork, networkOf } from '../limits/client.ts'
import { type ClaimedSender, createKnownSenders, createRefusedCredentials } from '../limits/memory.ts'
import { ID } from '../system.ts'
import { KEPT_NAME } from './schemas.ts'
import type { Sender } from './service.ts'
import {
  invalidSignature,
  refusalOf,
  type SignedMessage,
  TIMESTAMP,
  verifySignature,
  WEBHOOK_ID,
} from './signature.ts'

declare module 'fastify' {
  interface FastifyRequest {
    sender: Sender
    /** Undefined until the headers are accepted. */
    signed: Signed | undefined
  }
}

/** Checks headers, time, and limit before it reads the body, and the signature before it parses the body. */
async function plugin(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  const { config, system } = context
  const { signingSecrets, refusals } = app
  const badSignatures = createBadSignatures(app, context)
  const countRequest = app.limits.perSubject(config.limits.ingest, ({ sender }) => [sender.companyId])
  // For a company that has no secret or doesn't exist: the check costs the same work and always fails.
  const nobodysKey = system.randomBytes(32)
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ signature: [] }]
    addProblems(route.schema, ['invalid_signature'])
    // Schema errors are thrown below, once the secret is confirmed.
    route.attachValidation = true
  })
  app.decorateRequest('sender')
  app.decorateRequest('signed')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest) => await request.readBody(JSON_TYPE))

  app.addHook('onRequest', async (request) => {
    request.signed = readSigned(request, system.now(), config.signatureToleranceSeconds)
    await badSignatures.admit(request)
  })

  app.addHook('preValidation', async (request) => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const now = system.now()
    if (!request.signed) throw invalidSignature()
    const { companyId, id, timestamp, signature } = request.signed
    const secretVersion = await verify(companyId, { id, timestamp, body }, signature)
    request.sender = { companyId, secretVersion, webhookId: id }
    request.logContext.companyId = companyId
    await countRequest(request)
    await signingSecrets.touch(companyId, secretVersion, now)
    try {
      request.body = parseBody(body, KEPT_NAME)
    } catch (error) {
      await requireCurrentSecret(request)
      throw error
    }
  })

  app.addHook('preHandler', async (request) => {
    if (!request.validationError) return
    await requireCurrentSecret(request)
    throw request.validationError
  })

  // Only the storing statement knows that the secret is still current.
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (reply.statusCode === 202) badSignatures.noteValid(request)
    done()
  })

  // After the response, so that its timing reveals nothing.
  app.addHook('onResponse', (request, _reply, done) => {
    const { code } = request.logContext
    const refusal = code && refusalOf({ ...refusedOf(request), code }, config.signatureToleranceSeconds)
    if (refusal) refusals.note(refusal)
    done()
  })

  // Also counts secrets that the storing statement found replaced.
  app.setErrorHandler(async (error, request) => {
    if (toProblem(error).code === 'invalid_signature') {
      const wasVerified = request.signed !== undefined
      request.limit = await badSignatures.count(request, wasVerified)
    }
    throw error
  })

  function refusedOf(request: FastifyRequest) {
    const { raw, body } = request
    const sender: Sender | undefined = request.sender
    return {
      valuesOf: (name: string) => headerValues(raw, name),
      body: Buffer.isBuffer(body) ? body : undefined,
      secretVersion: sender?.secretVersion,
      network: networkOf(request),
      ipAddress: request.ipAddress,
      isKnown: badSignatures.isKnown(request),
      now: system.now(),
    }
  }

  async function verify(companyId: string, message: SignedMessage, signature: string): Promise<number> {
    const recalled = signingSecrets.recall(companyId)
    const isValid = verifySignature(recalled?.key ?? nobodysKey, message, signature)
    if (recalled && isValid) return recalled.version
    // This instance hasn't read the secret yet, or its copy is outdated.
    const loaded = await signingSecrets.load(companyId)
    const isValidNow = verifySignature(loaded?.key ?? nobodysKey, message, signature)
    if (loaded && isValidNow) return loaded.version
    throw invalidSignature()
  }

  /** A sender with a replaced secret must learn nothing else, such as schema errors. */
  async function requireCurrentSecret({ sender }: FastifyRequest): Promise<void> {
    if (!(await signingSecrets.isInForce(sender.companyId, sender.secretVersion))) throw invalidSignature()
  }
}

interface Signed {
  companyId: string
  id: string
  timestamp: string
  signature: string
}

function readSigned(request: FastifyRequest, now: number, toleranceSeconds: number): Signed {
  const companyId = readHeader(request, 'x-company-id').toLowerCase()
  const id = readHeader(request, 'webhook-id')
  const timestamp = readHeader(request, 'webhook-timestamp')
  const signature = readHeader(request, 'webhook-signature')
  const ageSeconds = now / 1000 - (TIMESTAMP.test(timestamp) ? Number(timestamp) : Number.NaN)
  if (!(Math.abs(ageSeconds) <= toleranceSeconds)) {
    throw invalidSignature(
      `The header webhook-timestamp must be Unix seconds, within ${inWords(toleranceSeconds)} of this service's clock.`,
    )
  }
  if (!ID.test(companyId) || !WEBHOOK_ID.test(id)) throw invalidSignature()
  return { companyId, id, timestamp, signature }
}

function claimedSenderOf(request: FastifyRequest): ClaimedSender {
  const companyId = headerValues(request.raw, 'x-company-id')[0]?.toLowerCase() ?? ''
  return { network: networkOf(request), company: ID.test(companyId) ? companyId : '' }
}

/** Exactly one: Node would join two, and a proxy could read only one of them. */
function readHeader(request: FastifyRequest, name: string): string {
  const [value, ...others] = headerValues(request.raw, name)
  if (!value) throw invalidSignature(`The header ${name} is missing.`)
  if (others.length > 0) throw invalidSignature(`The header ${name} was sent more than once.`)
  return value
}

export const signatureGuard = fp(plugin, {
  name: 'signature-guard',
  dependencies: ['memory-limits', 'observe', 'responses', 'body', 'signing-secrets'],
})

/** By network. Known senders have their own counter and, if strangers exhaust it, some checks beyond it. */
function createBadSignatures({ limits }: FastifyInstance, { config, system }: Context) {
  const known = createKnownSenders(system)
  const isKnown = (request: FastifyRequest) => known.has(claimedSenderOf(request))
  const counter = limits.counter(config.limits.badSignatures, (request) => {
    const { network, company } = claimedSenderOf(request)
    return isKnown(request) ? byNetwork(network, company) : byNetwork(network)
  })
  const checks = limits.counter(config.limits.signatureChecks, (request) => {
    const { network, company } = claimedSenderOf(request)
    return [company, network]
  })
  return {
    isKnown,
    ...createRefusedCredentials({ counter, checks, isKnown }),
    noteValid: (request: FastifyRequest) => known.note(claimedSenderOf(request)),
  }
}
