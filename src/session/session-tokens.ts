import type { Context } from '../http/context.ts'
import type { Session } from './session.ts'

/** The lifetimes are in seconds. `auth_time` and `amr`: RFC 9068, section 2.2.1. */
export interface IssuedTokens {
  accessToken: string
  refreshToken: string
  expiresIn: number
  refreshExpiresIn: number
}

/** A repetition gives the same refresh token, byte for byte: all its claims come from the session's row. */
export async function issueTokens(
  { tokens, config }: Pick<Context, 'tokens' | 'config'>,
  session: Session,
  now: number,
): Promise<IssuedTokens> {
  const owner = { sub: session.userId, cid: session.companyId, sid: session.sessionId }
  const nowSeconds = toSeconds(now)
  const refreshExp = toSeconds(session.expiresAt.getTime())
  const accessExp = Math.min(nowSeconds + config.accessTokenTtlSeconds, refreshExp)
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
