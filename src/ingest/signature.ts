import { createHmac, timingSafeEqual } from 'node:crypto'
import { Problem } from '../errors.ts'
import type { Refusal } from '../signing-secret/refusals.ts'
import { type EventRefusal, REFUSAL_REASONS } from '../signing-secret/schemas.ts'
import { ID } from '../system.ts'

/** Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, with the body as received. */

export const WEBHOOK_ID = /^[A-Za-z0-9_-]{1,128}$/
export const TIMESTAMP = /^\d{1,12}$/
/** Matched without splitting: a header can be thousands of spaces. */
const ENTRIES = /(?<![^ ])v1,([A-Za-z0-9+/]{43}=)(?![^ ])/g

export interface SignedMessage {
  id: string
  timestamp: string
  body: Buffer
}

export function verifySignature(key: Buffer, message: SignedMessage, header: string): boolean {
  const expected = createHmac('sha256', key)
    .update(`${message.id}.${message.timestamp}.`)
    .update(message.body)
    .digest()
  return header
    .matchAll(ENTRIES)
    .some(([, encoded = '']) => timingSafeEqual(Buffer.from(encoded, 'base64'), expected))
}

/** One detail for all causes, so that it doesn't reveal which companies exist. */
export function invalidSignature(
  detail = 'No signature in webhook-signature is valid for this company, ID, timestamp, and body.',
): Problem {
  return new Problem('invalid_signature', detail)
}

const HEADERS = ['x-company-id', 'webhook-id', 'webhook-timestamp', 'webhook-signature'] as const

interface RefusedRequest {
  code: string
  valuesOf(name: string): string[]
  /** Undefined if it is unread or already parsed. */
  body: Buffer | undefined
  secretVersion: number | undefined
  network: string
  ipAddress: string
  isKnown: boolean
  now: number
}

/** For the company: the sender's response says less. Null if no company is named or concerned. */
export function refusalOf(request: RefusedRequest, toleranceSeconds: number): Refusal | null {
  const { code, valuesOf, body, secretVersion, network, ipAddress, isKnown, now } = request
  const companyId = valuesOf('x-company-id')[0]?.toLowerCase() ?? ''
  if (!ID.test(companyId)) return null
  const [webhookId = '', timestamp = ''] = [valuesOf('webhook-id')[0], valuesOf('webhook-timestamp')[0]]
  const isInvalid = code === 'invalid_signature'
  const reason = isInvalid
    ? reasonOf(request, toleranceSeconds)
    : REFUSAL_REASONS.find((known) => known === code)
  if (!reason) return null
  return {
    companyId,
    reason,
    network,
    ipAddress,
    webhookId: WEBHOOK_ID.test(webhookId) ? webhookId : null,
    clockSkewSeconds:
      reason === 'timestamp_stale' ? countable(Number(timestamp) - Math.floor(now / 1000)) : null,
    now,
    isGenuine: isKnown || secretVersion !== undefined,
    bytes: body?.length ?? 0,
    isSignedBy: (former) => isSignedBy(request, former),
  }
}

function reasonOf({ valuesOf, now }: RefusedRequest, toleranceSeconds: number): EventRefusal {
  const found = HEADERS.map((name) => valuesOf(name))
  if (found.some(([value, ...others]) => !value || others.length > 0)) return 'header_missing'
  const [, , [timestamp = ''] = [], [signature = ''] = []] = found
  if (!TIMESTAMP.test(timestamp)) return 'timestamp_malformed'
  if (Math.abs(Number(timestamp) - now / 1000) > toleranceSeconds) return 'timestamp_stale'
  return signature.search(ENTRIES) >= 0 ? 'signature_mismatch' : 'signature_malformed'
}

/** Within the range of an int. */
function countable(seconds: number): number {
  return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, seconds))
}

function isSignedBy(
  { valuesOf, body, secretVersion }: RefusedRequest,
  { version, key }: { version: number; key: Buffer },
): boolean {
  if (secretVersion !== undefined) return secretVersion === version
  const [id = '', timestamp = '', signature = ''] = HEADERS.slice(1).map((name) => valuesOf(name)[0])
  const message: SignedMessage | undefined = body && { id, timestamp, body }
  return message !== undefined && verifySignature(key, message, signature)
}
