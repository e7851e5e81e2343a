import { randomUUID } from 'node:crypto'
import { Webhook } from 'standardwebhooks'

/**
 * An example sender: signs one event with the official library of Standard Webhooks, and sends it. The secret comes from the
 * environment, because other users can read command lines.
 */

const { BASE = 'http://127.0.0.1:3000/api', COMPANY_ID, SIGNING_SECRET } = process.env
if (!COMPANY_ID || !SIGNING_SECRET?.startsWith('whsec_')) {
  console.error(
    'Set COMPANY_ID and SIGNING_SECRET (whsec_…) in the environment. To use a different service, also set BASE.',
  )
  process.exit(1)
}

// A retry must use the same id, so that the event is stored once. The signed bytes must be the sent bytes.
const id = `msg_${randomUUID()}`
const now = new Date()
const data = { amount: 1250, currency: 'EUR' }
const body = JSON.stringify({ type: 'payment.created', occurredAt: now.toISOString(), data })
const response = await fetch(`${BASE}/events/ingest`, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    'x-company-id': COMPANY_ID,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(SIGNING_SECRET).sign(id, now, body),
  },
  body,
})
console.log(response.status, await response.text())
process.exitCode = response.ok ? 0 : 1
