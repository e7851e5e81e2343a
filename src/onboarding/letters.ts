import type { Kysely } from 'kysely'
import * as companies from '../company/service.ts'
import type { Config } from '../config.ts'
import type { Counters } from '../database/counters.ts'
import type { Database, TokenPurpose } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import type { DueMail, Letter } from '../mail/service.ts'
import type { System } from '../system.ts'
import { generateToken, LIFETIME_SECONDS } from './one-time-token.ts'
import * as repository from './repository.ts'

/**
 * What each mail says. A letter is written when it is sent: by the account as it is then, and with a token
 * that is made then, so that no row ever holds one, and a mail that had to wait is not out of date.
 */

interface Context {
  db: Kysely<Database>
  config: Pick<Config, 'publicUrl' | 'limits'>
  system: System
  counters: Counters
}

/** Where each kind of link leads, below the public address; what stands there only posts the token. */
const PAGES: Record<TokenPurpose, string> = {
  verify: 'verify-email',
  reset: 'reset-password',
  invite: 'accept-invitation',
}

export function createLetters({ db, config, system, counters }: Context) {
  /**
   * A link with a new token, which takes the place of those asked for earlier once its letter was sent; null
   * if one was asked for later.
   */
  async function newLink(
    { company_id: companyId, recipient: email, created_at: createdAt }: DueMail,
    purpose: TokenPurpose,
    now: number,
    role: string | null = null,
  ) {
    const { token, hash } = generateToken(system, purpose)
    const expiresAt = new Date(now + LIFETIME_SECONDS[purpose] * 1000)
    const row = { purpose, email, hash, role, createdAt, expiresAt }
    if (!(await repository.insertToken(db, companyId, row))) return null
    return {
      // In the fragment, which no server and no log sees (ASVS 14.2.1).
      url: `${config.publicUrl}/${PAGES[purpose]}#token=${token}`,
      until: toText(expiresAt),
      // Not before, so that an earlier link works as long as the later one has not come.
      whenSent: () => repository.deleteOlderTokens(db, companyId, row),
    }
  }

  /** Counts mail to an address that nobody has proven to be theirs: anybody can have it sent, by any company. */
  async function mayMailUnproven({ recipient, attempts }: DueMail, now: number): Promise<boolean> {
    if (attempts > 1) return true
    try {
      await counters.takeHit(config.limits.mail, [recipient], now)
      return true
    } catch (error) {
      if (error instanceof Problem && error.code === 'rate_limited') return false
      throw error
    }
  }

  /** @returns null if there is nobody to whom this is to be said any more, or never was */
  return async function compose(mail: DueMail, now: number): Promise<Letter | null> {
    const { company_id: companyId, recipient: email, kind, facts } = mail
    const idLine = `The id of the company, which signing in asks for: ${companyId}`
    const [account] = await companies.findAccountsByEmail(db, [{ companyId, email }])
    if (kind === 'invitation') {
      const companyName = account ? undefined : await companies.findActiveCompanyName(db, companyId)
      if (companyName === undefined || facts.role === undefined) return null
      const link = await newLink(mail, 'invite', now, facts.role)
      if (!link) return null
      return {
        name: email,
        subject: `Your invitation to ${companyName}`,
        paragraphs: [
          `${companyName} invites you to its account, with the role ${facts.role}.`,
          `The link works once, until ${link.until}. If you do not know ${companyName}, do nothing.`,
          idLine,
        ],
        link: { label: 'Accept the invitation', url: link.url },
        whenSent: link.whenSent,
      }
    }

    if (account?.user_status !== 'active' || account.company_status !== 'active') return null
    const { name, company_name: companyName } = account
    if (account.email_verified_at === null && !(await mayMailUnproven(mail, now))) return null
    const asked = `from the address ${facts.ipAddress ?? 'unknown'} on ${toText(mail.created_at)}`
    const device = facts.userAgent ? ` The device calls itself “${facts.userAgent}”.` : ''
    const help = `If that was not you, reset your password at once, and tell an administrator of ${companyName}.`
    switch (kind) {
      case 'verify_email': {
        if (account.email_verified_at) return null
        const link = await newLink(mail, 'verify', now)
        if (!link) return null
        return {
          name,
          // Anybody can register any address, under any name: the subject is ours alone.
          subject: 'Confirm your e-mail address',
          paragraphs: [
            `Somebody gave this e-mail address for an account of ${companyName}, ${asked}. Confirm that it is yours, and you can sign in:`,
            `The link works once, until ${link.until}. If it was not you, do nothing: without it nobody can sign in.`,
            idLine,
          ],
          link: { label: 'Confirm the address', url: link.url },
          whenSent: link.whenSent,
        }
      }
      case 'password_reset': {
        const link = await newLink(mail, 'reset', now)
        if (!link) return null
        return {
          name,
          subject: `Reset your password for ${companyName}`,
          paragraphs: [
            `Somebody asked to reset your password, ${asked}. To choose a new one:`,
            `The link works once, until ${link.until}. If it was not you, do nothing: your password stays as it is.`,
            idLine,
          ],
          link: { label: 'Choose a new password', url: link.url },
          whenSent: link.whenSent,
        }
      }
      case 'password_changed':
        return {
          name,
          subject: `Your password for ${companyName} was changed`,
          paragraphs: [`Your password was changed, ${asked}, and your other sessions have ended.`, help],
        }
      case 'sign_in_after_lockout':
        return {
          name,
          subject: `New sign-in to ${companyName} after too many wrong passwords`,
          paragraphs: [
            `Somebody tried so many wrong passwords for your account that it was locked for a while. Now there was a sign-in with the right one, ${asked}.${device}`,
            help,
          ],
        }
      case 'refresh_reuse':
        return {
          name,
          subject: `A session of yours at ${companyName} was ended to be safe`,
          paragraphs: [
            `A refresh token of yours was used twice, the second time ${asked}. A token is copied when that happens, or a program is at fault, so the session was ended. Your other sessions go on.`,
            `If you do not know why, reset your password, and tell an administrator of ${companyName}.`,
          ],
        }
    }
  }
}

/** 2026-11-20 10:15 UTC */
function toText(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
