import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { parseBody, requireJsonType } from '../http/body.ts'
import { headerValues } from '../http/framing.ts'
import type { SigningSecrets } from '../signing-secret/service.ts'
import { ID, type System } from '../system.ts'
import { invalidSignature, type SignedMessage, verifySignature } from './signature.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who signed the request, with which version of their secret. Behind the signature guard. */
    sender: { companyId: string; secretVersion: number; webhookId: string }
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
 * Lets in what a company signed. The signature is checked over the bytes that arrived, before they are
 * parsed. A remembered secret saves a round trip; the statement that stores the events confirms its version.
 */
async function plugin(app: FastifyInstance, { config, signingSecrets, system }: Options): Promise<void> {
  const countRequest = app.limits.perSubject(config.limits.ingest, (request) => request.sender.companyId)
  // Checked against for a company that has no secret, or does not exist: the same work, and it never holds.
  const nobodys = { key: system.randomBytes(32) }
  app.decorateRequest('sender')

  // In this scope bodies stay bytes until their signature held.
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, body: Buffer) => {
      requireJsonType(request)
      return body
    },
  )

  app.addHook('preValidation', async (request, reply) => {
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
    const now = system.now()
    request.sender = await authenticate(request, body, now)
    const { companyId, secretVersion } = request.sender
    request.facts.companyId = companyId
    await countRequest(request, reply)
    await signingSecrets.touch(companyId, secretVersion, now)
    try {
      request.body = parseBody(body)
    } catch (error) {
      await requireCurrentSecret(request)
      throw error
    }
  })

  // Routes here attach what the schema found wrong instead of answering it.
  app.addHook('preHandler', async (request) => {
    if (!request.validationError) return
    await requireCurrentSecret(request)
    throw request.validationError
  })

  async function authenticate(request: FastifyRequest, body: Buffer, now: number) {
    const companyId = readHeader(request, 'x-company-id').toLowerCase()
    const id = readHeader(request, 'webhook-id')
    const timestamp = readHeader(request, 'webhook-timestamp')
    const signature = readHeader(request, 'webhook-signature')
    const ageSeconds = now / 1000 - (TIMESTAMP.test(timestamp) ? Number(timestamp) : Number.NaN)
    if (!(Math.abs(ageSeconds) <= config.signatureToleranceSeconds)) {
      throw invalidSignature(
        `webhook-timestamp must be Unix seconds within ${config.signatureToleranceSeconds} s of this service's clock.`,
      )
    }
    if (!ID.test(companyId) || !WEBHOOK_ID.test(id)) throw invalidSignature()

    const message: SignedMessage = { id, timestamp, body }
    const recalled = signingSecrets.recall(companyId)
    let holds = verifySignature((recalled ?? nobodys).key, message, signature)
    let secret = recalled
    if (!holds || !secret) {
      // Not seen here yet, or replaced through another instance.
      secret = await signingSecrets.load(companyId)
      holds = verifySignature((secret ?? nobodys).key, message, signature)
    }
    if (!holds || !secret) throw invalidSignature()
    return { companyId, secretVersion: secret.version, webhookId: id }
  }

  /** For refusals that reach no other statement: who may no longer send learns only that. */
  async function requireCurrentSecret({ sender }: FastifyRequest): Promise<void> {
    if (!(await signingSecrets.isInForce(sender.companyId, sender.secretVersion))) throw invalidSignature()
  }
}

/** The one header of that name: two could be read differently on the way, and Node would join them. */
function readHeader(request: FastifyRequest, name: string): string {
  const [value, ...others] = headerValues(request.raw, name)
  if (!value) throw invalidSignature(`The header ${name} is missing.`)
  if (others.length > 0) throw invalidSignature(`The header ${name} was sent more than once.`)
  return value
}

export const signatureGuard = fp(plugin, { name: 'signature-guard', dependencies: ['limits', 'body'] })
