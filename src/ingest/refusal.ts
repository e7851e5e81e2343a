import { REFUSAL_REASONS, type RefusalReason } from '../signing-secret/refusal-reasons.ts'
import type { Refusal } from '../signing-secret/refusals.ts'
import { ID } from '../system.ts'
import { hasSignature, type SignedMessage, TIMESTAMP, verifySignature, WEBHOOK_ID } from './signature.ts'

/** Why a request with events was refused, as its company is told. The sender's answer says less. */

const HEADERS = ['x-company-id', 'webhook-id', 'webhook-timestamp', 'webhook-signature'] as const

interface RefusedRequest {
  /** The code of the answer. */
  code: string
  /** All values of a header. */
  valuesOf(name: string): string[]
  /** The bytes, if they were read and not parsed. */
  body: Buffer | undefined
  /** The version of the secret that signed it, as far as this instance knew. */
  secretVersion: number | undefined
  network: string
  ipAddress: string
  /** Whether a signature of the company has held from this network of late. */
  isKnown: boolean
  now: number
}

/** Null if the company is not told: it is not named, or the reason is none of its concern. */
export function refusalOf(request: RefusedRequest, toleranceSeconds: number): Refusal | null {
  const { code, valuesOf, body, secretVersion, network, ipAddress, isKnown, now } = request
  const companyId = valuesOf('x-company-id')[0]?.toLowerCase() ?? ''
  if (!ID.test(companyId)) return null
  const [webhookId = '', timestamp = ''] = [valuesOf('webhook-id')[0], valuesOf('webhook-timestamp')[0]]
  const reason = code === 'invalid_signature' ? reasonOf(request, toleranceSeconds) : asReason(code)
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

function asReason(code: string): RefusalReason | undefined {
  return REFUSAL_REASONS.find((reason) => reason === code)
}

function reasonOf({ valuesOf, now }: RefusedRequest, toleranceSeconds: number): RefusalReason {
  const found = HEADERS.map((name) => valuesOf(name))
  if (found.some(([value, ...others]) => !value || others.length > 0)) return 'header_missing'
  const [, , [timestamp = ''] = [], [signature = ''] = []] = found
  if (!TIMESTAMP.test(timestamp)) return 'timestamp_malformed'
  if (Math.abs(skewOf(timestamp, now)) > toleranceSeconds) return 'timestamp_stale'
  return hasSignature(signature) ? 'signature_mismatch' : 'signature_malformed'
}

/** Seconds by which the clock of the sender is ahead. */
function skewOf(timestamp: string, now: number): number {
  return Number(timestamp) - now / 1000
}

/** As far as the database can count. Timestamps are whole seconds, and so is the time they are compared with. */
function countable(seconds: number): number {
  return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, seconds))
}

/** Whether a secret of the company, which is not in force, signed the request. */
function isSignedBy(
  { valuesOf, body, secretVersion }: RefusedRequest,
  { version, key }: { version: number; key: Buffer },
): boolean {
  if (secretVersion !== undefined) return secretVersion === version
  const [id = '', timestamp = '', signature = ''] = HEADERS.slice(1).map((name) => valuesOf(name)[0])
  const message: SignedMessage | undefined = body && { id, timestamp, body }
  return message !== undefined && verifySignature(key, message, signature)
}
