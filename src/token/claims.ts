import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Problem } from '../errors.ts'
import { ID } from '../system.ts'

/** Unknown claims are ignored (RFC 7519, section 4), so one that restricts a token needs a different `typ`. */

export function issuerOf({ publicUrl }: { publicUrl: string }): string {
  return `${publicUrl}/api`
}

export const ACCESS_AUDIENCE = 'gatehouse'

export const CLOCK_SKEW_SECONDS = 120

const uuid = Type.String({ pattern: ID.source })
const time = Type.Integer({ minimum: 0, maximum: 253_402_300_799 })

const common = {
  iss: Type.String(),
  aud: Type.String(),
  sub: uuid,
  cid: uuid,
  sid: uuid,
  iat: time,
  exp: time,
  nbf: Type.Optional(time),
}

const AccessClaims = Type.Object({
  ...common,
  jti: uuid,
  role: Type.String(),
  perms: Type.Array(Type.String()),
  // Tokens from before version 1.1 have neither.
  amr: Type.Optional(Type.Array(Type.String())),
  auth_time: Type.Optional(time),
})
const RefreshClaims = Type.Object({
  ...common,
  jti: Type.String(),
  gen: Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }),
})
export type AccessClaims = Static<typeof AccessClaims>
export type RefreshClaims = Static<typeof RefreshClaims>

export function idsOf({ cid, sub, sid }: Pick<AccessClaims, 'cid' | 'sub' | 'sid'>) {
  return { companyId: cid, userId: sub, sessionId: sid }
}

export const invalidToken = () =>
  new Problem('invalid_token', 'The token is invalid. Send it exactly as it was issued, or sign in again.')

/** The reader throws Problem invalid_token. */
function createReader<Claims extends TSchema>(schema: Claims) {
  const claims = TypeCompiler.Compile(schema)
  return (payload: unknown): Static<Claims> => {
    if (!claims.Check(payload)) throw invalidToken()
    return payload
  }
}
export const readAccessClaims = createReader(AccessClaims)
export const readRefreshClaims = createReader(RefreshClaims)

/** @throws Problem invalid_token or token_expired */
export function checkTimes(
  kind: 'access' | 'refresh',
  claims: Pick<AccessClaims, 'sub' | 'cid' | 'sid' | 'iat' | 'nbf' | 'exp'>,
  now: number,
): void {
  const { iat, nbf = iat, exp } = claims
  const nowSeconds = now / 1000
  if (Math.max(iat, nbf) > nowSeconds + CLOCK_SKEW_SECONDS || exp < iat) throw invalidToken()
  if (exp > nowSeconds) return
  const logContext = idsOf(claims)
  const expiredAt = new Date(exp * 1000).toISOString()
  const advice = kind === 'access' ? 'Refresh it, or sign in again.' : 'Sign in again.'
  throw new Problem('token_expired', `The ${kind} token expired at ${expiredAt}. ${advice}`, { logContext })
}
