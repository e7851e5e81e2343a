import type { Session } from './session.ts'
import type { IssuedTokens } from './session-tokens.ts'

export function toSessionReply(session: Session) {
  return {
    session: {
      id: session.sessionId,
      createdAt: session.createdAt.toISOString(),
      expiresAt: session.expiresAt.toISOString(),
    },
    user: { id: session.userId, email: session.email, name: session.name, role: session.role },
    subscription: {
      status: session.subscriptionStatus,
      plan: session.plan,
      currentPeriodEnd: session.currentPeriodEnd.toISOString(),
    },
    planFeatures: session.features,
    permissions: session.permissions,
    accessContext: {
      companyId: session.companyId,
      companyHandle: session.companyHandle,
      companyName: session.companyName,
      role: session.role,
      assignments: session.assignments,
    },
  }
}

export function toTokenReply(session: Session, tokens: IssuedTokens) {
  return { ...tokens, tokenType: 'Bearer' as const, ...toSessionReply(session) }
}
