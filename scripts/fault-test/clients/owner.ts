import type { Credentials } from '../../kit/operations.ts'
import type { Part } from '../checker/history.ts'
import { type Account, emailOf, leave } from './account.ts'
import { changeEmail, undo } from './address.ts'
import { addApp, answerChallenge, forgetFactor, removeApp, replaceCodes } from './factor.ts'
import { expectMail, type Mailbox } from './mailbox.ts'
import { resetByMail } from './mailed.ts'
import { type Actor, pause, perform } from './perform.ts'
import { memberIn, memberOf, openedBy, refresh, type Session, toSession, use } from './person.ts'

/**
 * Somebody who changes their account: adds an authenticator app, signs in with it or with recovery codes, changes the e-mail, and
 * takes such changes back by the links that are mailed for it.
 */

const PAUSE_MS = 300
/** Recovery codes are replaced when fewer are left. */
const FEW = 3

export async function liveOwner(actor: Actor, mailbox: Mailbox, person: Credentials): Promise<void> {
  const account: Account = {
    ...{ companyId: person.companyId, member: memberOf(person) },
    ...{ emails: [person.email], hadEmails: new Set([person.email]), passwords: [person.password] },
    ...{ app: null, codes: [], used: null, undos: [], session: null, isUnsure: false },
  }
  while (!actor.ending.aborted) {
    await pause(actor, PAUSE_MS)
    if (account.session) await work(actor, mailbox, account, account.session)
    else if (account.passwords.length > 0) await signIn(actor, mailbox, account)
    else {
      const email = actor.random.pick(account.emails)
      account.passwords = await resetByMail(actor, mailbox, { ...account, email }, account.member)
    }
  }
  // As the last change made it.
  if (account.passwords.length > 0) await signIn(actor, mailbox, account)
}

async function work(actor: Actor, mailbox: Mailbox, account: Account, session: Session): Promise<void> {
  const { app, codes } = account
  const choice = actor.random.below(20)
  if (choice < 3) account.session = (await use(actor, session)) ? session : null
  else if (choice < 5) account.session = await refresh(actor, session, actor.random.word(16))
  else if (choice < 12) await leave(actor, account, false)
  else if (choice < 16 && !app) await addApp(actor, mailbox, account)
  else if (choice < 16 && codes.length < FEW) await replaceCodes(actor, mailbox, account)
  else if (choice === 16 && app) await removeApp(actor, mailbox, account)
  else if (choice === 17) await undo(actor, mailbox, account)
  else if (choice > 17) await changeEmail(actor, mailbox, account)
}

async function signIn(actor: Actor, mailbox: Mailbox, account: Account): Promise<void> {
  const { random } = actor
  const { companyId, member: id, isUnsure } = account
  const [email, password] = [random.pick(account.emails), random.pick(account.passwords)]
  const { outcome, code, reply } = await perform(actor, {
    what: 'POST /auth/login',
    json: { companyId, email, password },
    asked: memberOf({ companyId, email, password }),
    answeredOf: memberIn,
    parts: (answer): Part[] => {
      const { outcome, code, reply } = answer
      if (code === 'invalid_credentials' && isUnsure) return []
      return [
        { kind: 'member', id, act: 'sign-in', email, password },
        ...(outcome === 'ok' ? [{ kind: 'factor', id, act: 'enter' } as const] : []),
        ...(reply.challenge !== undefined
          ? [{ kind: 'factor', id, act: 'ask', challenge: reply.challenge } as const]
          : []),
        ...openedBy(id, answer),
      ]
    },
  })
  if (outcome === 'refused') account.isUnsure = false
  if (code === 'invalid_credentials' && !isUnsure && account.passwords.length + account.emails.length === 2)
    account.passwords = []
  if (outcome === 'ok' || reply.challenge !== undefined)
    Object.assign(account, { emails: [email], passwords: [password], isUnsure: false })
  if (outcome === 'ok') forgetFactor(account)
  account.session =
    reply.challenge === undefined
      ? toSession(reply)
      : await answerChallenge(actor, mailbox, account, reply.challenge)
  // Of a right password whose factor never came the member is told.
  if (!account.session) expectMail(mailbox, emailOf(account), '', 'unknown')
}
