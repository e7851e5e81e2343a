import { Problem } from '../errors.ts'
import type { Batched, Context } from '../http/context.ts'
import { newId } from '../system.ts'
import { idsOf, invalidToken } from '../token/claims.ts'
import { type Actor, actIn } from './acts.ts'
import { type Credential, sessionChanged } from './credential.ts'
import { endSessionOfUser } from './ending-repository.ts'
import {
  type CookieLogout,
  type LoggedOut,
  type LogoutScope,
  logOutCookiesAcrossCompanies,
  logOutTokens,
  type TokenLogout,
} from './logout-repository.ts'
import { endReasonOf, logContextOf, sessionEnded } from './session.ts'

interface LogoutRequest {
  scope: LogoutScope
  ipAddress: string
  now: number
}

// Batched, because anyone can send forged cookies, and each causes a look-up.
const byToken = (scope: LogoutScope): Batched<TokenLogout, LoggedOut | null> => ({
  name: 'logouts',
  keyOf: ({ companyId, sessionId }) => `${companyId} ${sessionId}`,
  run: ({ db }, items) => logOutTokens(db, items, scope),
  schedule: setImmediate,
})
const byCookie = (scope: LogoutScope): Batched<CookieLogout, LoggedOut | null> => ({
  name: 'cookie_logouts',
  keyOf: ({ cookieHash }) => cookieHash.toString('base64'),
  run: ({ db }, items) => logOutCookiesAcrossCompanies(db, items, scope),
  schedule: setImmediate,
})
const TOKEN_LOGOUTS = { session: byToken('session'), all: byToken('all') }
const COOKIE_LOGOUTS = { session: byCookie('session'), all: byCookie('all') }

/** When it resolves, no instance accepts the ended credentials. @throws Problem session_ended, session_changed, invalid_token */
export async function logOut(context: Context, credential: Credential, request: LogoutRequest) {
  const found = await end(context, credential, request)
  if (!found) throw invalidToken()
  const { wasLive, isEnded } = found
  if (!wasLive) throw sessionEnded(endReasonOf(found, request.now) ?? 'expired', logContextOf(found))
  if (!isEnded) throw sessionChanged()
  return logContextOf(found)
}

async function end(
  { inBatch, system, tokens, opaque }: Context,
  credential: Credential,
  { scope, ipAddress, now }: LogoutRequest,
) {
  const about = { now: new Date(now), auditId: newId(system), ipAddress, shownSessionId: null }
  if ('claims' in credential) {
    const { keyId } = credential.claims
    const found = await inBatch(TOKEN_LOGOUTS[scope], { ...idsOf(credential.claims), keyId, ...about })
    // The row outlives the token, so its key was revoked.
    if (!found) tokens.reloadKeys()
    return found
  }
  const cookieHash = opaque.hash(credential.cookie)
  const { shownSessionId } = credential
  return cookieHash && (await inBatch(COOKIE_LOGOUTS[scope], { ...about, cookieHash, shownSessionId }))
}

/** @throws Problem not_found */
export async function endOwnSession(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { session: { companyId, userId }, client, now }: Actor,
  sessionId: string,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    if (!(await endSessionOfUser(tx, companyId, { userId, sessionId, now: new Date(now) })))
      throw new Problem(
        'not_found',
        'You have no active session with this ID. List your sessions with GET /auth/sessions.',
      )
    await actIn(tx, system, { companyId, userId, sessionId }, { client, now }).audit('session_end')
  })
}
