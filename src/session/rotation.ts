import { createHash } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { createBatch } from '../database/batch.ts'
import { type LimitState, Problem, rateLimited } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { newId } from '../system.ts'
import { invalidToken, type RefreshClaims } from '../token/claims.ts'
import type { RotationPolicy } from './rotation-fragments.ts'
import { createRotation, type Rotation, type RotationOutcome } from './rotation-repository.ts'
import { endReasonOf, type IssuedTokens, issueTokens, type Session, sessionEnded } from './session.ts'

/** Rotation: a refresh token can be used once, in exchange for its successor. */

interface RefreshRequest {
  idempotencyKey: string | undefined
  ipAddress: string
  now: number
}

export interface Refreshed {
  session: Session
  tokens: IssuedTokens
  limit: LimitState
}

/** @throws Problem session_ended, refresh_token_reused, idempotency_conflict, invalid_token, rate_limited, overloaded */
export type Refresh = (claims: RefreshClaims, request: RefreshRequest) => Promise<Refreshed>

export function createRefresh(context: Context): Refresh {
  const { db, config, measureBatch } = context
  const rotate = createBatch<Rotation, RotationOutcome | null>({
    keyOf: ({ companyId, sessionId }) => `${companyId} ${sessionId}`,
    run: measureBatch('refreshes', createRotation(db, policyOf(config))),
    schedule: setImmediate,
  })
  /** Concurrent requests with the same token share one result. */
  const refreshing = new Map<string, Promise<Refreshed>>()

  return async (claims, request) => {
    const token = `${claims.cid} ${claims.sid} ${claims.sub} ${claims.gen}`
    let answer = refreshing.get(token)
    if (!answer) {
      const { cid: companyId, sid: sessionId, sub: userId, gen: generation } = claims
      answer = rotate(toRotation(context, { companyId, sessionId, userId, generation }, request))
        .then((outcome) => toAnswer(context, outcome, request.now))
        .finally(() => refreshing.delete(token))
      refreshing.set(token, answer)
    }
    return await answer
  }
}

export function policyOf(config: Config): RotationPolicy {
  return {
    ttlSeconds: config.refreshTokenTtlSeconds,
    raceSeconds: config.refreshRaceSeconds,
    graceSeconds: config.refreshGraceSeconds,
    idempotencyWindowSeconds: config.idempotencyWindowSeconds,
    limit: config.limits.refresh,
  }
}

export function toRotation(
  { system }: Pick<Context, 'system'>,
  token: Pick<Rotation, 'companyId' | 'sessionId' | 'userId' | 'generation'>,
  { idempotencyKey, ipAddress, now }: RefreshRequest,
): Rotation {
  return {
    ...token,
    key: idempotencyKey === undefined ? null : hashKey(idempotencyKey),
    now: new Date(now),
    auditId: newId(system),
    ipAddress,
  }
}

/** 64 bits of the key's hash: enough to distinguish the few dozen keys of one session. */
function hashKey(key: string): string {
  return createHash('sha256').update(key).digest().readBigInt64BE().toString()
}

/** @throws Problem unless the outcome is a pair of tokens */
export async function toAnswer(
  context: Context,
  outcome: RotationOutcome | null,
  now: number,
): Promise<Refreshed> {
  if (!outcome) throw invalidToken()
  const { session, used, resetSeconds } = outcome
  const { refresh } = context.config.limits
  const limit = { ...refresh, remaining: Math.max(0, refresh.max - used), resetSeconds }
  switch (outcome.verdict) {
    case 'rotated':
    case 'repeated':
      return { session, tokens: await issueTokens(context, session, now), limit }
    case 'ended':
      throw sessionEnded(endReasonOf(session, now) ?? 'expired')
    case 'conflict':
      throw new Problem(
        'idempotency_conflict',
        'This Idempotency-Key was used with an earlier token of the session. Send a new key with each token.',
      )
    case 'limited':
      throw rateLimited({ ...limit, remaining: 0 })
    case 'raced':
      throw new Problem(
        'refresh_token_reused',
        'Another request used this token a moment ago. Use the token from its response.',
      )
    case 'reused':
      throw new Problem(
        'refresh_token_reused',
        'This token was already used, so its session was ended for safety. Sign in again.',
        { reason: 'refresh_reuse' },
      )
    case 'unknown':
      throw invalidToken()
  }
}
