import { createHmac, randomBytes } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { type Client, JSON_CONTENT, patient, type Request, requireCorrect } from './client.ts'
import { type Credentials, type Operation, openSession, replyOf } from './operations.ts'

/** About 500 bytes. */
export const SAMPLE_EVENT = {
  type: 'payment.created',
  occurredAt: '2026-01-01T12:00:00.000Z',
  data: {
    amount: 1250,
    currency: 'EUR',
    card: { bin: '411111', last4: '1111', country: 'DE', funding: 'credit' },
    customer: { id: 'cus_9s6XKzkNRiz8i3', email: 'ada@customer.example', createdAt: '2024-05-05T05:05:05Z' },
    device: { ip: '203.0.113.7', userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0' },
    shipping: { line1: '1 Example Street', city: 'Berlin', postalCode: '10115', country: 'DE' },
  },
}

export interface Sender {
  companyId: string
  signingKey: Buffer
}

const SecretReply = Type.Object({ secret: Type.String() })
const IngestReply = Type.Object({ accepted: Type.Integer(), duplicates: Type.Integer() })

export async function openSender(client: Client, admin: Credentials): Promise<Sender> {
  const { accessToken: token } = await openSession(client, admin)
  const path = '/api/auth/webhook-secret/regenerate'
  const answer = await patient(client).send({ method: 'POST', path, token })
  const { secret } = replyOf(SecretReply, 200, answer)
  return senderOf(admin.companyId, secret)
}

/** `secret`: as the service shows it. */
export function senderOf(companyId: string, secret: string): Sender {
  return { companyId, signingKey: Buffer.from(secret.slice('whsec_'.length), 'base64') }
}

export function signedRequest(
  { companyId, signingKey }: Sender,
  id: string,
  body: string,
  atMs = Date.now(),
): Request {
  const timestamp = String(Math.floor(atMs / 1000))
  const tag = createHmac('sha256', signingKey).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    method: 'POST',
    path: '/api/events/ingest',
    headers: {
      ...JSON_CONTENT,
      'x-company-id': companyId,
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${tag}`,
    },
    body,
  }
}

/** Sends the sample event `count` times in a request, with new IDs. */
export function ingest(sender: Sender, count = 1): Operation {
  const events = Array.from({ length: count }, () => SAMPLE_EVENT)
  const body = JSON.stringify(count === 1 ? SAMPLE_EVENT : { events })
  const prefix = randomBytes(9).toString('base64url')
  let requests = 0
  return {
    request() {
      requests += 1
      return signedRequest(sender, `${prefix}-${requests}`, body)
    },
    take(answer) {
      const { accepted, duplicates } = replyOf(IngestReply, 202, answer)
      requireCorrect(accepted === count && duplicates === 0, 'events that were not all accepted')
    },
  }
}
