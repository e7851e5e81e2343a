import { setTimeout as sleep } from 'node:timers/promises'
import { Secret, TOTP } from 'otpauth'
import type { Proof } from '../checker/factor.ts'
import { type Account, act, emailOf, leave, obtainMailCode, sessionOf } from './account.ts'
import { expectMail, type Mailbox, seenIn, waitForMail } from './mailbox.ts'
import { type Actor, type Answered, atAll, pause, perform } from './perform.ts'
import { memberIn, openedBy, type Session, toSession } from './person.ts'

/** An authenticator app, its codes, and recovery codes. */

const STEP_MS = 30_000
const LOOK_MS = 250
const TRIES = 8

const stepNow = () => Math.floor(Date.now() / STEP_MS)

function codeOf({ secret, step }: { secret: string; step: number }): string {
  return TOTP.generate({ secret: Secret.fromBase32(secret), timestamp: step * STEP_MS })
}

/** Adds an app as the first factor. */
export async function addApp(actor: Actor, mailbox: Mailbox, account: Account): Promise<void> {
  const mailCode = await obtainMailCode(actor, mailbox, account, 'factor')
  if (mailCode === null) return
  const { outcome, reply } = await act(actor, account, {
    what: 'POST /auth/second-factors/totp',
    json: { mailCode },
    parts: () => [],
  })
  const { id, secret } = reply
  if (outcome === 'ok' && id && secret) await confirmApp(actor, mailbox, account, { id, secret, lastStep: 0 })
}

/** One attempt of several does it; the others are refused. */
async function confirmApp(
  actor: Actor,
  mailbox: Mailbox,
  account: Account,
  app: NonNullable<Account['app']>,
): Promise<void> {
  const { id: session, accessToken: token } = sessionOf(account)
  const {
    member,
    emails: [email = ''],
  } = account
  const { secret } = app
  const before = seenIn(mailbox)
  let isDoubtful = false
  let answer: Answered | undefined
  for (let left = TRIES; left > 0; left -= 1) {
    const step = stepNow()
    app.lastStep = step
    answer = await perform(actor, {
      what: `POST /auth/second-factors/totp/${app.id}/confirm`,
      token,
      json: { code: codeOf({ secret, step }) },
      parts: ({ outcome, reply: { recoveryCodes } }) => {
        const codes = Array.isArray(recoveryCodes) ? recoveryCodes : null
        return [
          { kind: 'session', id: session, act: 'use' },
          { kind: 'factor', id: member, act: 'enrol', secret, step, codes },
          ...(outcome === 'refused'
            ? []
            : [{ kind: 'sessions', id: member, act: 'end', kept: session } as const]),
        ]
      },
    })
    isDoubtful ||= answer.outcome === 'unknown'
    // The clock of the instance can be wrong.
    if (answer.outcome === 'ok' || (answer.outcome === 'refused' && answer.code !== 'invalid_request')) break
    await pause(actor, LOOK_MS)
  }
  const isDone = answer?.outcome === 'ok'
  expectMail(mailbox, email, 'undo', isDone ? 'ok' : isDoubtful ? 'unknown' : 'refused')
  if (isDone || isDoubtful) account.app = app
  const codes = answer?.reply.recoveryCodes
  account.codes = Array.isArray(codes) ? codes : []
  account.used = { secret, step: app.lastStep }
  if (!isDone) return await leave(actor, account, isDoubtful)
  const mail = await waitForMail(actor, mailbox, email, 'undo', before)
  if (mail) account.undos.push({ email, token: mail.token })
}

/** Of an app or, if it has had the code of this moment, a recovery code: which are used one, or several at once. */
export async function answerChallenge(
  actor: Actor,
  mailbox: Mailbox,
  account: Account,
  challenge: string,
): Promise<Session | null> {
  const { random } = actor
  const { used } = account
  const email = emailOf(account)
  if (used && random.isOneIn(2)) await answer(actor, account, challenge, used)
  const proof = await chooseProof(actor, account)
  if (!proof) return null
  const answers = random.isOneIn(2)
    ? await atAll(actor, (at) => answer(actor, account, challenge, proof, at))
    : [await answer(actor, account, challenge, proof)]
  const done = answers.find(({ outcome }) => outcome === 'ok')
  if ('code' in proof) {
    const isDoubtful = answers.some(({ outcome }) => outcome === 'unknown')
    expectMail(mailbox, email, '', done ? 'ok' : isDoubtful ? 'unknown' : 'refused')
    if (done || !isDoubtful) account.codes = account.codes.filter((code) => code !== proof.code)
  }
  if (!done) return null
  account.used = proof
  return toSession(done.reply)
}

async function answer(
  actor: Actor,
  account: Account,
  challenge: string,
  proof: Proof,
  at = actor.random.below(actor.clients.length),
): Promise<Answered> {
  const given =
    'code' in proof ? { method: 'recovery_code', ...proof } : { method: 'totp', code: codeOf(proof) }
  return await perform(actor, {
    at,
    what: 'POST /auth/login/second-factor',
    json: { challenge, ...given },
    asked: `${account.companyId} ${emailOf(account)}`,
    answeredOf: memberIn,
    parts: (answered) => [
      { kind: 'factor', id: account.member, act: 'answer', challenge, proof },
      ...openedBy(account.member, answered),
    ],
  })
}

/** Null if the end comes before there is one. */
async function chooseProof(actor: Actor, account: Account): Promise<Proof | null> {
  const { random, ending } = actor
  const { app, codes } = account
  if (codes.length > 0 && (!app || app.lastStep >= stepNow() || random.isOneIn(2)))
    return { code: random.pick(codes) }
  if (!app) return null
  while (app.lastStep >= stepNow()) {
    if (ending.aborted) return null
    await sleep(LOOK_MS)
  }
  app.lastStep = stepNow()
  return { secret: app.secret, step: app.lastStep }
}

/** The old ones are void. */
export async function replaceCodes(actor: Actor, mailbox: Mailbox, account: Account): Promise<void> {
  const {
    member,
    codes: [old],
  } = account
  const { outcome, reply } = await act(actor, account, {
    what: 'POST /auth/second-factors/recovery-codes',
    parts: ({ reply: { recoveryCodes } }) => [
      {
        ...{ kind: 'factor', id: member, act: 'replace' },
        codes: Array.isArray(recoveryCodes) ? recoveryCodes : null,
      },
    ],
  })
  expectMail(mailbox, emailOf(account), '', outcome)
  if (outcome !== 'ok' || !Array.isArray(reply.recoveryCodes)) return
  account.codes = reply.recoveryCodes
  if (old !== undefined) account.used = { code: old }
}

export async function removeApp(actor: Actor, mailbox: Mailbox, account: Account): Promise<void> {
  const { member, app } = account
  if (!app) return
  const { id: kept } = sessionOf(account)
  const { outcome } = await act(actor, account, {
    what: `DELETE /auth/second-factors/${app.id}`,
    parts: ({ outcome }) => [
      { kind: 'factor', id: member, act: 'remove', secret: app.secret },
      ...(outcome === 'refused' ? [] : [{ kind: 'sessions', id: member, act: 'end', kept } as const]),
    ],
  })
  expectMail(mailbox, emailOf(account), '', outcome)
  if (outcome === 'ok') forgetFactor(account)
}

export function forgetFactor(account: Account): void {
  Object.assign(account, { app: null, codes: [], used: null })
}
