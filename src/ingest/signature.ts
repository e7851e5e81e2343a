import { createHmac, timingSafeEqual } from 'node:crypto'
import { Problem } from '../errors.ts'

/** Signatures of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, the body as the bytes that arrived. */

const ENTRY = /^v1,([A-Za-z0-9+/]{43}=)$/

export interface SignedMessage {
  id: string
  timestamp: string
  body: Buffer
}

/** Whether any one `v1` entry of the header is the message's signature under the key. */
export function verifySignature(key: Buffer, message: SignedMessage, header: string): boolean {
  const expected = createHmac('sha256', key)
    .update(`${message.id}.${message.timestamp}.`)
    .update(message.body)
    .digest()
  return header
    .split(' ')
    .map((entry) => ENTRY.exec(entry)?.[1])
    .some((encoded) => encoded !== undefined && timingSafeEqual(Buffer.from(encoded, 'base64'), expected))
}

/** One detail for all that is wrong, so that nobody learns which companies exist. */
export function invalidSignature(
  detail = 'No entry of webhook-signature is valid for this company, id, timestamp and body.',
): Problem {
  return new Problem('invalid_signature', detail)
}
