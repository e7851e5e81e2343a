import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Webhook } from 'standardwebhooks'

/**
 * An example sender: signs one event with the official library of Standard Webhooks and sends it. The secret
 * comes from the environment, because other users can read command lines.
 */

const USAGE = `Usage: npm run send-event -- [--type payment.created] [--data '{"amount":1250}']

Set in the environment: COMPANY_ID, SIGNING_SECRET (whsec_…) and, unless it is http://127.0.0.1:3000/api,
BASE, the URL of the service.`

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

function readOptions() {
  try {
    return parseArgs({
      options: {
        type: { type: 'string', default: 'payment.created' },
        data: { type: 'string', default: '{"amount":1250,"currency":"EUR"}' },
        help: { type: 'boolean' },
      },
    }).values
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : error}\n\n${USAGE}`)
  }
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return fail(`--data must be a JSON object, not ${text}`)
  }
}

function openSigner(secret: string): Webhook {
  if (!/^whsec_[A-Za-z0-9+/]+=*$/.test(secret))
    return fail('SIGNING_SECRET must be the secret as it was shown: whsec_ and base64.')
  return new Webhook(secret)
}

const { type, data, help } = readOptions()
const { BASE = 'http://127.0.0.1:3000/api', COMPANY_ID, SIGNING_SECRET } = process.env
if (help || !COMPANY_ID || !SIGNING_SECRET) fail(USAGE)

// A retry must use the same id, so that the event is stored once. The signed bytes are the bytes sent.
const id = `msg_${randomUUID()}`
const now = new Date()
const body = JSON.stringify({ type, occurredAt: now.toISOString(), data: parseData(data) })
const response = await fetch(`${BASE}/events/ingest`, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    'x-company-id': COMPANY_ID,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': openSigner(SIGNING_SECRET).sign(id, now, body),
  },
  body,
}).catch((error: Error) => fail(`Nothing answers at ${BASE}: ${error.cause ?? error.message}`))
console.log(response.status, await response.text())
process.exitCode = response.ok ? 0 : 1
