import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { JSON_CONTENT } from '../../kit/client.ts'
import { listMails } from '../../kit/mail-folder.ts'
import { findingsHold, succeed } from '../aims.ts'
import type { Finding } from '../figures.ts'
import { postText } from '../generators/request-text.ts'
import { sendSteadily } from '../generators/steady-requests.ts'
import { ipv4Networks } from '../networks.ts'
import { type FloodTarget, from as forwardedFrom } from '../target/open-target.ts'
import type { Flood, Victim } from './flood.ts'

/** Mails that strangers cause to others, who request a mail of their own meanwhile. */

const RATE = 20
const CONNECTIONS = 50
const NEWCOMER = 'newcomer@flood.example'
const OWNER_NETWORK = '203.0.113.7'

export const mailFrom1 = mail(1, 'one network')
export const mailFrom100 = mail(100, '100 networks')

function mail(count: number, from: string): Flood {
  return {
    about: `${RATE} registrations, forgotten passwords and resends a second with others' e-mails, from ${from}`,
    aims: [findingsHold, succeed(0.98, 'sign-in, known network', 'session check')],
    attack(victim) {
      const networks = ipv4Networks(count)
      return sendSteadily({
        url: victim.url,
        isProxied: victim.isProxied,
        rate: RATE,
        connections: CONNECTIONS,
        depth: 1,
        requestOf: (n) => mailText(victim, n, networks(Math.floor(n / 3))),
      })
    },
    prepare: makeUnverified,
    meanwhile: askForOwnMails,
  }
}

function mailText(
  { companyId, members: [forgetful, unverified] }: Victim,
  n: number,
  network: string,
): string {
  const headers = { 'X-Forwarded-For': network }
  if (n % 3 === 0) return postText(REGISTER, JSON.stringify(registrationOf(n)), headers)
  const [path, email] = n % 3 === 1 ? [FORGOT, forgetful] : [RESEND, unverified]
  return postText(path, JSON.stringify({ companyId, email }), headers)
}

const REGISTER = '/api/auth/register'
const FORGOT = '/api/auth/password/forgot'
const RESEND = '/api/auth/verify-email/resend'

function registrationOf(n: number) {
  const password = randomBytes(15).toString('base64url')
  return { companyName: `Company ${n}`, name: 'Ada', email: NEWCOMER, password }
}

async function makeUnverified({ connection, attacked: [, unverified] }: FloodTarget): Promise<void> {
  await connection.query('update users set email_verified_at = null where email = $1', [unverified?.email])
}

interface OwnMail {
  /** Who asks for it. */
  owner: string
  askedAt: number
  status: number
  /** What the request stored, with what attackers stored in the same moment. */
  ids: string[]
}

/** After a third of the flood each owner asks for their mail, from a network of their own. */
async function askForOwnMails(target: FloodTarget, seconds: number): Promise<Finding[]> {
  const { companyId } = target.admin
  const [forgetful = '', unverified = ''] = target.attacked.map(({ email }) => email)
  await sleep((seconds * 1000) / 3)
  const asked = [
    await ask(target, 'who registers', REGISTER, registrationOf(0)),
    await ask(target, 'who forgot a password', FORGOT, { companyId, email: forgetful }),
    await ask(target, 'who wants a link again', RESEND, { companyId, email: unverified }),
  ]
  await sleep((seconds * 2000) / 3)
  const findings: Finding[] = []
  for (const mail of asked) findings.push(await findMail(target, mail))
  for (const email of [NEWCOMER, forgetful, unverified]) {
    const mails = await listMails(target.dataFolder, email)
    findings.push({ what: `mails to ${email} in all`, value: mails.length, unit: '' })
  }
  return findings
}

async function ask(
  target: FloodTarget,
  owner: string,
  path: string,
  body: { email: string; companyId?: string },
): Promise<OwnMail> {
  const before = new Set(await mailIds(target, body.email, body.companyId))
  const askedAt = Date.now()
  const headers = { ...JSON_CONTENT, ...forwardedFrom(OWNER_NETWORK) }
  const { status, text } = await target.proxy.send({
    method: 'POST',
    path,
    headers,
    body: JSON.stringify(body),
  })
  // Registration opens a company, in which no mail is but its own.
  const [, companyId = body.companyId] = /"companyId":"([^"]+)"/.exec(text) ?? []
  const ids = (await mailIds(target, body.email, companyId)).filter((id) => !before.has(id))
  return { owner, askedAt, status, ids }
}

async function mailIds(
  { connection }: FloodTarget,
  email: string,
  companyId: string | undefined,
): Promise<string[]> {
  const { rows } = await connection.query<{ id: string }>(
    'select mail_id as id from mail_outbox where recipient = $1 and company_id = $2',
    [email, companyId ?? null],
  )
  return rows.map(({ id }) => id)
}

async function findMail({ connection }: FloodTarget, mail: OwnMail): Promise<Finding> {
  const { rows } = await connection.query<{ sentAt: Date | null }>(
    'select sent_at as "sentAt" from mail_outbox where mail_id = any($1) and failed_at is null order by sent_at',
    [mail.ids],
  )
  const value = mail.status < 300 ? describe(mail, rows) : `the request was answered ${mail.status}`
  const what = `the mail of somebody ${mail.owner} is sent or waits`
  return { what, value, unit: '', isMet: mail.status < 300 && rows.length > 0 }
}

function describe({ askedAt }: OwnMail, [first]: { sentAt: Date | null }[]): string {
  if (!first) return 'lost'
  return first.sentAt ? `sent after ${((first.sentAt.getTime() - askedAt) / 1000).toFixed(1)} s` : 'waits'
}
