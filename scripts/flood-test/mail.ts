import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import type { Request } from '../kit/client.ts'
import { replyOf } from '../kit/operations.ts'
import type { Finding } from './aims.ts'
import { sendFrom } from './networks.ts'
import { forgotten, post, registration, type Victim } from './requests.ts'
import type { Target } from './target.ts'

/** Attackers request emails to three people, who request their own emails too. */

const NEWCOMER = 'newcomer@flood.example'
const OWNERS_NETWORK = '203.0.113.7'
const Registered = Type.Object({ companyId: Type.String() })

function requestsOf({ companyId, members }: Victim, n: number): [email: string, request: Request][] {
  const [forgetful = '', unverified = ''] = members
  return [
    [NEWCOMER, registration(n, NEWCOMER)],
    [forgetful, forgotten(companyId, forgetful)],
    [unverified, post('/api/auth/verify-email/resend', { companyId, email: unverified })],
  ]
}

export function mailRequest(victim: Victim, n: number): Request {
  const [, request] = requestsOf(victim, n)[n % 3] ?? []
  if (!request) throw new Error('there are three kinds of requests')
  return request
}

export async function makeUnverified({ connection, attacked: [, unverified] }: Target): Promise<void> {
  await connection.query('update users set email_verified_at = null where email = $1', [unverified?.email])
}

/** After a third of the flood, each owner requests an email. At its end, a newer one must be sent or queued. */
export async function askForOwnMails(target: Target, seconds: number): Promise<Finding[]> {
  const { url, admin, attacked, connection } = target
  const victim = { url, companyId: admin.companyId, members: attacked.map(({ email }) => email) }
  await sleep((seconds * 1000) / 3)
  const asked = []
  for (const [email, request] of requestsOf(victim, 0)) {
    const at = new Date()
    const answer = await sendFrom(OWNERS_NETWORK, url, request)
    // A registration creates a company without other emails.
    const isNew = email === NEWCOMER
    const companyId = isNew ? replyOf(Registered, 201, answer).companyId : admin.companyId
    asked.push({ email, companyId, at })
  }
  await sleep((seconds * 2000) / 3)
  const findings: Finding[] = []
  for (const { email, companyId, at } of asked) {
    const { rows } = await connection.query<{ isSent: boolean }>(
      `select sent_at is not null as "isSent" from mail_outbox
       where recipient = $1 and company_id = $2 and created_at >= $3 and failed_at is null`,
      [email, companyId, at],
    )
    const sent = rows.filter(({ isSent }) => isSent).length
    const measured = `${sent} sent, ${rows.length - sent} queued`
    findings.push({
      what: `the email that ${email} requested is sent or queued`,
      measured,
      isMet: rows.length > 0,
    })
  }
  return findings
}
