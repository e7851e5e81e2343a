import { createHmac, timingSafeEqual } from 'node:crypto'
import { Problem } from '../errors.ts'

/** Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, with the body as received. */

export const WEBHOOK_ID = /^[A-Za-z0-9_-]{1,128}$/
/** In Unix seconds. */
export const TIMESTAMP = /^\d{1,12}$/
/** In a list separated by spaces. Splitting costs more: a header can be thousands of spaces. */
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

export function hasSignature(header: string): boolean {
  return header.search(ENTRIES) >= 0
}

/** One detail for all, so that it does not reveal which companies exist. */
export function invalidSignature(
  detail = 'No entry of webhook-signature is valid for this company, id, timestamp and body.',
): Problem {
  return new Problem('invalid_signature', detail)
}
