import type { Context } from '../context.ts'
import type { Session } from './session.ts'

/** Both tokens, and their lifetimes in seconds. */
export interface IssuedTokens {
  accessToken: string
  refreshToken: string
  expiresIn: number
  refreshExpiresIn: number
}

/** Issues the tokens of a session's generation. A repetition gives the same refresh token, byte for byte. */
export async function issueTokens(
  { tokens, config }: Pick<Context, 'tokens' | 'config'>,
  session: Session,
  now: number,
): Promise<IssuedTokens> {
  const owner = { sub: session.userId, cid: session.companyId, sid: session.sessionId }
  const nowSeconds = toSeconds(now)
  const refreshExp = toSeconds(session.expiresAt.getTime())
  const accessExp = Math.min(nowSeconds + config.accessTokenTtlSeconds, refreshExp)
  // All claims come from the session's row, so a repetition gives the same bytes.
  const refreshToken = tokens.signRefresh({
    ...owner,
    gen: session.generation,
    iat: toSeconds(session.issuedAt.getTime()),
    exp: refreshExp,
  })
  const accessToken = await tokens.signAccess(
    {
      ...owner,
      role: session.role,
      perms: session.permissions,
      ...(session.amr && { amr: session.amr }),
      // RFC 9068, section 2.2.1
      ...(session.provenAt && { auth_time: toSeconds(session.provenAt.getTime()) }),
      iat: nowSeconds,
      exp: accessExp,
    },
    now,
  )
  return {
    accessToken,
    refreshToken,
    expiresIn: accessExp - nowSeconds,
    refreshExpiresIn: refreshExp - nowSeconds,
  }
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000)
}
