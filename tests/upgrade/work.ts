import { TOTP } from 'otpauth'
import type pg from 'pg'
import { requireCorrect } from '../../scripts/kit/client.ts'
import { letSend, mailed } from './mail.ts'
import {
  askWithMailCode,
  COOKIE_MODE,
  endOf,
  letAnHourPass,
  newEmail,
  newPassword,
  type Person,
  refresh,
  register,
  signed,
  signIn,
} from './members.ts'
import type { Reply, Side } from './side.ts'

/** Work started at one side must continue at the other. */

interface World {
  connection: pg.Client
  /** The admin of a company from before the upgrade. */
  admin: Person
}

/** Runs in both directions. */
type Work = (here: Side, there: Side, world: World) => Promise<void>

/** An email that one side causes, one sends, and whose link one uses. */
type Exchange = (cause: Side, sender: Side, use: Side, world: World) => Promise<unknown>

const sentByEach =
  (exchange: Exchange): Work =>
  async (here, there, world) => {
    await letSend(world.connection, here)
    await exchange(here, here, there, world)
    await letSend(world.connection, there)
    await exchange(here, there, here, world)
  }

const REGENERATE = 'POST /auth/webhook-secret/regenerate'

/** Named after the state that moves from one side to the other. */
export const WORK: Record<string, Work> = {
  async 'a refresh token'(here, there, { admin }) {
    const first = await signIn(here, admin)
    const third = await refresh(here, await refresh(there, first))
    await there.ask('GET /auth/session', { by: third })
    // It was used two generations ago, so the session ends for both.
    await refresh(there, first, {}, '401 refresh_token_reused')
    await here.ask('GET /auth/session', { by: third }, '401 session_ended')
  },

  async 'a refresh whose response was lost'(here, there, { admin }) {
    const first = await signIn(here, admin)
    const key = { 'idempotency-key': 'first' }
    const [second, repeated] = [await refresh(here, first, key), await refresh(there, first, key)]
    requireCorrect(repeated.refreshToken === second.refreshToken, 'the retry got another successor')
    const next = { 'idempotency-key': 'next' }
    const [third, again] = [await refresh(there, second, next), await refresh(here, second, next)]
    requireCorrect(again.refreshToken === third.refreshToken, 'the retry got another successor')
    await refresh(here, third, next, '409 idempotency_conflict')
  },

  async 'a logout'(here, there, { admin }) {
    for (const path of ['/auth/logout', '/auth/logout?scope=all'] as const) {
      const by = await signIn(here, admin)
      await there.ask(`POST ${path}`, { by }, '204')
      await here.ask('GET /auth/session', { by }, '401 session_ended')
      await refresh(here, by, {}, '401 session_ended')
    }
  },

  async 'a cookie'(here, there, { admin, connection }) {
    const by = await signIn(here, admin, COOKIE_MODE)
    await letAnHourPass(connection, by)
    const renewed = await there.ask('GET /auth/session', { by })
    requireCorrect(endOf(renewed) > endOf(by), 'its use has not renewed it')
    const used = await here.ask('GET /auth/session', { by })
    requireCorrect(endOf(used) === endOf(renewed), 'it was renewed at one side alone')
    await there.ask('POST /auth/logout', { by }, '204')
    await here.ask('GET /auth/session', { by }, '401 session_ended')
  },

  // The earlier release ignores them.
  async 'a session of a company with session limits'(here, there, { admin, connection }) {
    const limit = (seconds: number | null) =>
      connection.query(
        'update companies set session_idle_seconds = $2, session_max_age_seconds = $2 where company_id = $1',
        [admin.companyId, seconds],
      )
    await limit(3600)
    const [by, cookie] = [await signIn(here, admin), await signIn(here, admin, COOKIE_MODE)]
    const next = await refresh(here, await refresh(there, by))
    for (const use of [next, cookie]) await there.ask('GET /auth/session', { by: use })
    await limit(null)
    await there.ask('POST /auth/logout', { by: next }, '204')
  },

  async 'a recent authentication with tokens'(here, there, { admin, connection }) {
    const invite = (side: Side, by: Reply, expected: string) =>
      side.ask('POST /auth/invitations', { by, json: { email: newEmail(), role: 'viewer' } }, expected)
    const by = await signIn(here, admin)
    await letAnHourPass(connection, by)
    await invite(there, by, '403 reauthentication_required')
    const proven = await here.ask('POST /auth/reauthenticate', { by, json: { password: admin.password } })
    await invite(there, proven, '201')
    await invite(here, await refresh(there, proven), '201')
  },

  async 'a recent authentication with a cookie'(here, there, { admin, connection }) {
    const by = await signIn(here, admin, COOKIE_MODE)
    await letAnHourPass(connection, by)
    await there.ask(REGENERATE, { by }, '403 reauthentication_required')
    const { password } = admin
    const proven = await here.ask('POST /auth/reauthenticate', { by, json: { password } }, '204')
    await there.ask('GET /auth/session', { by }, '401 invalid_token')
    await there.ask(REGENERATE, { by: proven })
  },

  async 'a service account'(here, there, { admin }) {
    const by = await signIn(here, admin)
    const json = { name: 'Worker', role: 'viewer' }
    const { id, email = '', password = '' } = await here.ask('POST /auth/members', { by, json }, '201')
    const server = { companyId: admin.companyId, email, password }
    const first = await refresh(there, await signIn(here, server))
    // A version from before service passwords had their own form refuses them.
    const isOfThisForm = password.startsWith('gsp_')
    await there.ask(
      'POST /auth/login',
      { json: server },
      isOfThisForm ? '200|401 invalid_credentials' : '200',
    )
    const newer = isOfThisForm ? here : there
    const replaced = await newer.ask(`POST /auth/members/${id}/password`, { by })
    for (const side of [here, there]) {
      await side.ask('GET /auth/session', { by: first }, '401 session_ended')
      await side.ask('POST /auth/login', { json: server }, '401 invalid_credentials')
    }
    const next = await signIn(newer, { ...server, password: replaced.password ?? '' })
    for (const side of [here, there]) await side.ask('GET /auth/session', { by: next })
  },

  async 'an authenticator app'(here, there, { connection }) {
    await letSend(connection, there)
    const person = await register(here, there, there)
    const [other, by] = [await signIn(there, person), await signIn(here, person)]
    const route = 'POST /auth/second-factors/totp'
    const { id, secret = '' } = await askWithMailCode(
      here,
      { sender: there, connection },
      { person, by },
      route,
      undefined,
      '201',
    )
    const app = new TOTP({ secret })
    const { recoveryCodes } = await here.ask(`${route}/${id}/confirm`, { by, json: { code: app.generate() } })
    await there.ask('GET /auth/session', { by: other }, '401 session_ended')
    const signInBy = async (method: string, code: string, first: Side, second: Side, expected?: string) => {
      const { challenge } = await first.ask(
        'POST /auth/login',
        { json: person },
        '401 second_factor_required',
      )
      await second.ask('POST /auth/login/second-factor', { json: { challenge, method, code } }, expected)
    }
    // A code works once, so this is the next one.
    await signInBy('totp', app.generate({ timestamp: Date.now() + 30_000 }), there, there)
    const [one = '', next = ''] = recoveryCodes ?? []
    await signInBy('recovery_code', one, there, here)
    // A version from before codes of 26 letters refuses them.
    const isLong = next.replaceAll('-', '').length === 26
    await signInBy('recovery_code', next, here, there, isLong ? '200|401 invalid_second_factor' : '200')
  },

  async 'a signing secret'(here, there, { admin }) {
    const by = await signIn(here, admin)
    const { secret = '' } = await here.ask(REGENERATE, { by })
    const event = signed(admin, secret)
    const { accepted } = await there.ask('POST /events/ingest', event, '202')
    const { duplicates } = await here.ask('POST /events/ingest', event, '202')
    requireCorrect(accepted === 1 && duplicates === 1, 'the same event is another one for the other side')
    await there.ask(REGENERATE, { by })
    await here.ask('POST /events/ingest', event, '401 invalid_signature')
  },

  'links to verify an email and to reset a password': sentByEach(async (cause, sender, use) => {
    const { companyId, email } = await register(cause, sender, use)
    const password = newPassword()
    await cause.ask('POST /auth/password/forgot', { json: { companyId, email } }, '202')
    const token = await mailed(sender, email, /reset_[\w-]{43}/)
    await use.ask('POST /auth/password/reset', { json: { token, newPassword: password } }, '204')
    await signIn(use, { companyId, email, password })
  }),

  'a link to accept an invitation': sentByEach(async (cause, sender, use, { admin }) => {
    const person = { companyId: admin.companyId, email: newEmail(), password: newPassword() }
    const { email, password } = person
    const by = await signIn(cause, admin)
    await cause.ask('POST /auth/invitations', { by, json: { email, role: 'viewer' } }, '201')
    const token = await mailed(sender, email, /invite_[\w-]{43}/)
    await use.ask('POST /auth/invitations/accept', { json: { token, name: 'Bob', password } }, '201')
    await signIn(use, person)
  }),

  'a link to change an email': sentByEach(async (cause, sender, use, { connection }) => {
    const person = await register(cause, sender, use)
    const [by, email] = [await signIn(cause, person), newEmail()]
    const json = { newEmail: email }
    await askWithMailCode(
      cause,
      { sender, connection },
      { person, by },
      'POST /auth/email/change',
      json,
      '202',
    )
    const token = await mailed(sender, email, /confirm_[\w-]{43}/)
    await use.ask('POST /auth/email/confirm', { json: { token } }, '204')
    await signIn(use, { ...person, email })
  }),
}
