/** A chapter of the OpenAPI document. */
export const SIGNATURE_GUIDE = `## Signed events

Events are signed as in Standard Webhooks, whose libraries work unchanged. The key of the HMAC is not the text of the signing
secret: it is the 32 bytes that the base64 behind \`whsec_\` decodes to. Sign the bytes of the body as they are sent. In
JavaScript:

\`\`\`js
import { createHmac } from 'node:crypto'

// The value of webhook-signature. The timestamp is in Unix seconds, as in webhook-timestamp.
export function sign(secret, { id, timestamp, body }) {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signed = createHmac('sha256', key).update(id + '.' + timestamp + '.' + body)
  return 'v1,' + signed.digest('base64')
}
\`\`\`
`
