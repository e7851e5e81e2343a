import { createBatch } from '../database/batch.ts'
import type { Context } from '../http/context.ts'
import { newId } from '../system.ts'
import { invalidToken } from '../token/claims.ts'
import { type Credential, sessionChanged } from './credential.ts'
import * as repository from './logout-repository.ts'
import { endReasonOf, logContextOf, sessionEnded } from './session.ts'

interface LogoutRequest {
  scope: repository.LogoutScope
  ipAddress: string
  now: number
}

/** When what it returns resolves, no instance accepts the ended credentials. @throws Problem session_ended, session_changed, invalid_token */
export function createLogout({ db, system, tokens, opaque, measureBatch }: Context) {
  // In batches, since anybody can send a false cookie, and each one causes a statement.
  const byToken = (scope: repository.LogoutScope) =>
    createBatch<repository.TokenLogout, repository.LoggedOut | null>({
      keyOf: ({ companyId, sessionId }) => `${companyId} ${sessionId}`,
      run: measureBatch('logouts', (items) => repository.logOutTokens(db, items, scope)),
      schedule: setImmediate,
    })
  const byCookie = (scope: repository.LogoutScope) =>
    createBatch<repository.CookieLogout, repository.LoggedOut | null>({
      keyOf: ({ cookieHash }) => cookieHash.toString('base64'),
      run: measureBatch('cookie_logouts', (items) =>
        repository.logOutCookiesAcrossCompanies(db, items, scope),
      ),
      schedule: setImmediate,
    })
  const endByToken = { session: byToken('session'), all: byToken('all') }
  const endByCookie = { session: byCookie('session'), all: byCookie('all') }

  async function logOut(credential: Credential, { scope, ipAddress, now }: LogoutRequest) {
    const about = { now: new Date(now), auditId: newId(system), ipAddress, shownSessionId: null }
    if ('claims' in credential) {
      const { cid: companyId, sid: sessionId, sub: userId, keyId } = credential.claims
      const found = await endByToken[scope]({ companyId, sessionId, userId, keyId, ...about })
      // The row outlives the token, so its key was revoked.
      if (!found) tokens.reloadKeys()
      return found
    }
    const cookieHash = opaque.hash(credential.cookie)
    const { shownSessionId } = credential
    return cookieHash && (await endByCookie[scope]({ ...about, cookieHash, shownSessionId }))
  }

  return async (credential: Credential, request: LogoutRequest) => {
    const found = await logOut(credential, request)
    if (!found) throw invalidToken()
    const { wasLive, isEnded } = found
    if (!wasLive) throw sessionEnded(endReasonOf(found, request.now) ?? 'expired', logContextOf(found))
    if (!isEnded) throw sessionChanged()
    return logContextOf(found)
  }
}
