import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Webhook } from 'standardwebhooks'

/**
 * An example sender: signs one event with the official library of Standard Webhooks and sends it. The
 * secret comes from the environment, never from the command line, where other users could read it.
 */

const { values } = parseArgs({
  options: {
    url: { type: 'string', default: process.env['BASE'] ?? 'http://127.0.0.1:3000/api' },
    company: { type: 'string', default: process.env['COMPANY_ID'] ?? '' },
    type: { type: 'string', default: 'payment.created' },
    data: { type: 'string', default: '{"amount":1250,"currency":"EUR"}' },
  },
})
const secret = process.env['SIGNING_SECRET']
if (!secret || !values.company) {
  console.error('Set SIGNING_SECRET (whsec_…) and COMPANY_ID in the environment, then run this again.')
  process.exit(1)
}

// The same id on a retry makes the event arrive once; the same bytes are signed and sent.
const id = `msg_${randomUUID()}`
const now = new Date()
const body = JSON.stringify({
  type: values.type,
  occurredAt: now.toISOString(),
  data: JSON.parse(values.data),
})
const response = await fetch(`${values.url}/events/ingest`, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    'x-company-id': values.company,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(id, now, body),
  },
  body,
})
console.log(response.status, await response.text())
process.exitCode = response.ok ? 0 : 1
