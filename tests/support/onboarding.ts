import { expect, vi } from 'vitest'
import { normalizeEmail } from '../../src/http/email-address.ts'
import { invite } from '../../src/operator/users.ts'
import type { Mailbox } from './mailbox.ts'
import { NEW_PASSWORD, PASSWORD, type Person, type TestService } from './test-service.ts'

export type Purpose = 'verify' | 'reset' | 'invite'

const SUBJECTS = { verify: 'Confirm your email', reset: 'Reset your password', invite: 'Your invitation' }

let people = 0
export const newEmail = () => {
  people += 1
  return `person${people}@onboarding.example`
}

export function useService(service: TestService, mailbox: Mailbox) {
  /** A registered but unverified company, with the emailed token. */
  async function register(email = newEmail()): Promise<Person & { token: string }> {
    const { status, body } = await service.call('/auth/register', {
      json: { companyName: `Company of ${email}`, name: 'Ada', email, password: PASSWORD },
    })
    if (status !== 201) throw new Error(`registration answered ${status} ${body.code}`)
    const { token } = await mailbox.mailTo(normalizeEmail(email))
    return { companyId: body.companyId, userId: body.userId, email, password: PASSWORD, token }
  }

  async function verify(token: string): Promise<void> {
    const { status } = await service.call('/auth/verify-email', { json: { token } })
    if (status !== 200) throw new Error(`verification answered ${status}`)
  }

  async function join(email = newEmail()): Promise<Person> {
    const { token, ...person } = await register(email)
    await verify(token)
    await mailbox.mailTo(normalizeEmail(email), 'Your company is ready')
    return person
  }

  /** Resolves once no email is queued. */
  async function allSent(): Promise<void> {
    const waiting = service.db
      .selectFrom('mail_outbox')
      .select('kind')
      .where('sent_at', 'is', null)
      .where('failed_at', 'is', null)
    await vi.waitFor(async () => expect(await waiting.execute()).toEqual([]), { timeout: 100_000 })
  }

  /** Requests an email one second after the previous one, and returns its token. */
  async function tokenOf(purpose: Purpose, { companyId }: { companyId: string }, email = newEmail()) {
    service.clock.advance(1)
    if (purpose === 'invite') await invite(service.context, companyId, { email, role: 'viewer' })
    else {
      const path = purpose === 'reset' ? '/auth/password/forgot' : '/auth/verify-email/resend'
      await service.call(path, { json: { companyId, email } })
    }
    const { token } = await mailbox.mailTo(email, SUBJECTS[purpose])
    await allSent()
    return token
  }

  /** Sends a token to the endpoint of a purpose, which can differ from the token's own. */
  function use(purpose: Purpose, token: string, { at = 0, password = NEW_PASSWORD } = {}) {
    const calls = {
      verify: ['/auth/verify-email', { token }],
      reset: ['/auth/password/reset', { token, newPassword: password }],
      invite: ['/auth/invitations/accept', { token, name: 'Bob', password }],
    } as const
    const [path, json] = calls[purpose]
    return service.call(path, { json, at })
  }

  return { register, verify, join, allSent, tokenOf, use }
}
