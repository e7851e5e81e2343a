import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { parseBody, requireJsonType } from '../http/body.ts'
import { headerValues } from '../http/framing.ts'
import { addProblems } from '../http/responses.ts'
import type { SigningSecrets } from '../signing-secret/service.ts'
import { ID, type System } from '../system.ts'
import type { Sender } from './items.ts'
import { invalidSignature, type SignedMessage, verifySignature } from './signature.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The company that signed the request, and the version of its secret. Set by the signature guard. */
    sender: Sender
  }
}

const WEBHOOK_ID = /^[A-Za-z0-9_-]{1,128}$/
const TIMESTAMP = /^\d{1,12}$/

interface Options {
  config: Config
  signingSecrets: SigningSecrets
  system: System
}

/**
 * Admits requests that a company signed. The signature of the received bytes is checked before parsing.
 * A remembered secret saves a round trip; the statement that stores the events confirms its version.
 */
async function plugin(app: FastifyInstance, { config, signingSecrets, system }: Options): Promise<void> {
  const countRequest = app.limits.perSubject(config.limits.ingest, (request) => request.sender.companyId)
  // For a company that has no secret or does not exist: the check costs the same work and always fails.
  const nobodysKey = system.randomBytes(32)
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ signature: [] }]
    addProblems(route.schema, ['invalid_signature'])
    // Faults that the schema finds are answered only after the secret is confirmed, below.
    route.attachValidation = true
  })
  app.decorateRequest('sender')
  keepBodiesAsBytes(app)

  app.addHook('preValidation', async (request, reply) => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const now = system.now()
    const signed = readSigned(request, body, now, config.signatureToleranceSeconds)
    const { companyId } = signed
    const secretVersion = await verify(signed)
    request.sender = { companyId, secretVersion, webhookId: signed.id }
    request.logContext.companyId = companyId
    await countRequest(request, reply)
    await signingSecrets.touch(companyId, secretVersion, now)
    try {
      request.body = parseBody(body)
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

  /** Returns the version of the secret that signed the message. @throws Problem invalid_signature */
  async function verify(signed: Signed): Promise<number> {
    const { companyId, signature } = signed
    const recalled = signingSecrets.recall(companyId)
    const holds = verifySignature(recalled?.key ?? nobodysKey, signed, signature)
    if (recalled && holds) return recalled.version
    // This instance has not read the secret yet, or another instance has replaced it.
    const loaded = await signingSecrets.load(companyId)
    const holdsNow = verifySignature(loaded?.key ?? nobodysKey, signed, signature)
    if (loaded && holdsNow) return loaded.version
    throw invalidSignature()
  }

  /** For refusals before the storing statement: a sender with a replaced secret must learn nothing else. */
  async function requireCurrentSecret({ sender }: FastifyRequest): Promise<void> {
    if (!(await signingSecrets.isInForce(sender.companyId, sender.secretVersion))) throw invalidSignature()
  }
}

/** In this scope a body stays bytes until its signature is verified. */
function keepBodiesAsBytes(app: FastifyInstance): void {
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer) => {
      requireJsonType(request)
      return body
    },
  )
}

interface Signed extends SignedMessage {
  companyId: string
  signature: string
}

/** Reads the headers of a signed message and checks its time. @throws Problem invalid_signature */
function readSigned(request: FastifyRequest, body: Buffer, now: number, toleranceSeconds: number): Signed {
  const companyId = readHeader(request, 'x-company-id').toLowerCase()
  const id = readHeader(request, 'webhook-id')
  const timestamp = readHeader(request, 'webhook-timestamp')
  const signature = readHeader(request, 'webhook-signature')
  const ageSeconds = now / 1000 - (TIMESTAMP.test(timestamp) ? Number(timestamp) : Number.NaN)
  if (!(Math.abs(ageSeconds) <= toleranceSeconds)) {
    throw invalidSignature(
      `webhook-timestamp must be Unix seconds within ${toleranceSeconds} s of this service's clock.`,
    )
  }
  if (!ID.test(companyId) || !WEBHOOK_ID.test(id)) throw invalidSignature()
  return { companyId, id, timestamp, signature, body }
}

/** The only header of that name: Node would join two of them, and a proxy could read one of the two. */
function readHeader(request: FastifyRequest, name: string): string {
  const [value, ...others] = headerValues(request.raw, name)
  if (!value) throw invalidSignature(`The header ${name} is missing.`)
  if (others.length > 0) throw invalidSignature(`The header ${name} was sent more than once.`)
  return value
}

export const signatureGuard = fp(plugin, {
  name: 'signature-guard',
  dependencies: ['memory-limits', 'observe', 'responses', 'body'],
})
