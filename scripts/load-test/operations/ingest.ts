import { createHmac } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { requireCorrect } from '../drive/failure.ts'
import type { Operation } from '../drive/load.ts'
import { type Client, JSON_CONTENT, parseReply } from '../http-client.ts'
import { EVENT_ID_PREFIX, SAMPLE_EVENT } from './sample-event.ts'

const IngestReply = TypeCompiler.Compile(
  Type.Object({ accepted: Type.Integer(), duplicates: Type.Integer() }),
)

export interface Sender {
  companyId: string
  signingKey: Buffer
}

/** Sends signed events, one a request. */
export function ingestEvent(client: Client, sender: Sender): Operation {
  return ingest(client, sender, JSON.stringify(SAMPLE_EVENT), 1)
}

/** Sends signed events, `count` of them a request. */
export function ingestBatch(client: Client, sender: Sender, count: number): Operation {
  const events = Array.from({ length: count }, () => SAMPLE_EVENT)
  return ingest(client, sender, JSON.stringify({ events }), count)
}

let senders = 0

function ingest(client: Client, sender: Sender, body: string, eventCount: number): Operation {
  senders += 1
  const prefix = `${EVENT_ID_PREFIX}-${senders}`
  let requests = 0
  return async () => {
    requests += 1
    const reply = await client.request(202, {
      method: 'POST',
      path: '/api/events/ingest',
      headers: signedHeaders(sender, `${prefix}-${requests}`, body),
      body,
    })
    const { accepted, duplicates } = parseReply(IngestReply, reply)
    requireCorrect(accepted === eventCount && duplicates === 0, 'events that were not all accepted')
  }
}

/** The signature of Standard Webhooks. */
export function signedHeaders(
  { companyId, signingKey }: Sender,
  id: string,
  body: string,
): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1000))
  const tag = createHmac('sha256', signingKey).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    ...JSON_CONTENT,
    'x-company-id': companyId,
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${tag}`,
  }
}
