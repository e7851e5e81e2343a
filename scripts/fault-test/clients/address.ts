import { type Account, act, emailOf, obtainMailCode } from './account.ts'
import { forgetFactor } from './factor.ts'
import { doubtMail, expectMail, type Mailbox, seenIn, waitForMail } from './mailbox.ts'
import { choosePassword } from './mailed.ts'
import { type Actor, atAll, performUntilKnown } from './perform.ts'
import { use } from './person.ts'

/** Another e-mail for an account, by a mailed link, and links that take changes back, each at all instances at once. */

export async function changeEmail(actor: Actor, mailbox: Mailbox, account: Account): Promise<void> {
  const isProven = account.app !== null
  const mailCode = isProven ? undefined : await obtainMailCode(actor, mailbox, account, 'email')
  if (mailCode === null) return
  const [email, newEmail] = [emailOf(account), `${actor.random.word(12)}@moved.example`]
  const before = seenIn(mailbox)
  const { outcome } = await act(actor, account, {
    what: 'POST /auth/email/change',
    json: { newEmail, ...(mailCode !== undefined && { mailCode }) },
    parts: () => [],
  })
  expectMail(mailbox, newEmail, 'confirm', outcome)
  expectMail(mailbox, email, '', outcome, true)
  if (outcome !== 'ok') return
  const mail = await waitForMail(actor, mailbox, newEmail, 'confirm', before)
  // The next change takes it back.
  if (!mail) return void doubtMail(mailbox, newEmail, 'confirm')
  const isDone = await confirm(actor, mailbox, account, { email, newEmail, token: mail.token })
  expectMail(mailbox, newEmail, '', isDone ? 'ok' : 'unknown', true)
  expectMail(mailbox, email, isProven ? '' : 'undo', isDone ? 'ok' : 'unknown', isProven)
  if (!isDone || isProven) return
  const link = await waitForMail(actor, mailbox, email, 'undo', before)
  if (link) account.undos.push({ email, token: link.token })
}

/** False if that is not known. */
async function confirm(
  actor: Actor,
  mailbox: Mailbox,
  account: Account,
  { email, newEmail, token }: { email: string; newEmail: string; token: string },
): Promise<boolean> {
  // What is mailed to the e-mail of an account finds none there.
  for (const purpose of ['', 'reset'] as const) doubtMail(mailbox, email, purpose)
  const answers = await atAll(actor, (at) =>
    performUntilKnown(actor, {
      what: 'POST /auth/email/confirm',
      json: { token },
      at,
      parts: ({ outcome }) => [
        { kind: 'token', id: token, act: 'consume' },
        ...(outcome === 'refused'
          ? []
          : [{ kind: 'member', id: account.member, act: 'move', email: newEmail } as const]),
      ],
    }),
  )
  const isDone = answers.some(({ outcome }) => outcome === 'ok')
  account.emails = isDone ? [newEmail] : [newEmail, email]
  account.hadEmails.add(newEmail)
  return isDone
}

/** By any of the links. It voids those of later changes. */
export async function undo(actor: Actor, mailbox: Mailbox, account: Account): Promise<void> {
  const { member, emails, undos, session } = account
  if (undos.length === 0) return
  const index = actor.random.below(undos.length)
  const [link, ...later] = undos.slice(index)
  if (!link) return
  const { email, token } = link
  // Also a later link whose mail is still to come.
  for (const one of account.hadEmails)
    for (const purpose of ['', 'reset', 'undo'] as const) doubtMail(mailbox, one, purpose)
  const before = seenIn(mailbox)
  const answers = await atAll(actor, (at) =>
    performUntilKnown(actor, {
      what: 'POST /auth/undo',
      json: { token },
      at,
      asked: email,
      answeredOf: (reply) => reply.email,
      parts: ({ outcome }) => [
        { kind: 'token', id: token, act: 'consume' },
        ...(outcome === 'refused'
          ? []
          : [
              { kind: 'member', id: member, act: 'undo', email } as const,
              { kind: 'factor', id: member, act: 'reset' } as const,
              { kind: 'sessions', id: member, act: 'end', kept: null } as const,
              ...later.map(({ token: id }) => ({ kind: 'token', id, act: 'void' }) as const),
            ]),
      ],
    }),
  )
  const isDone = answers.some(({ outcome }) => outcome === 'ok')
  const outcome = isDone ? 'ok' : 'unknown'
  for (const former of emails) if (former !== email) expectMail(mailbox, former, '', outcome, true)
  expectMail(mailbox, email, 'reset', outcome)
  forgetFactor(account)
  account.undos = undos.slice(0, index)
  account.emails = isDone ? [email] : [email, ...emails]
  account.session = null
  if (session) for (const at of actor.clients.keys()) await use(actor, session, at)
  // The links after it, and the password, are void; if it is not known whether it was used, one of them can work.
  for (const { token: id } of isDone ? later : [])
    await performUntilKnown(actor, {
      what: 'POST /auth/undo',
      json: { token: id },
      parts: () => [{ kind: 'token', id, act: 'consume' }],
    })
  if (actor.random.isOneIn(2))
    account.passwords = await choosePassword(actor, mailbox, { email, member }, before)
}
