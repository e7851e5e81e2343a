import type { RowOf } from '../database/columns.ts'
import type { SubscriptionStatus } from '../database/schema.ts'

/** A user's identity and current rights: the columns of the view `accounts`, without its key. */
export const ACCOUNT_COLUMNS = {
  email: 'email',
  name: 'name',
  role: 'role',
  assignments: 'assignments',
  userStatus: 'user_status',
  permissions: 'all_permissions',
  companyName: 'company_name',
  companyHandle: 'company_handle',
  companyStatus: 'company_status',
  subscriptionStatus: 'subscription_status',
  plan: 'plan',
  currentPeriodEnd: 'current_period_end',
  features: 'features',
  userKind: 'user_kind',
  secondFactors: 'second_factors',
  secondFactorPolicy: 'second_factor_policy',
} as const

export interface MemberIds {
  companyId: string
  userId: string
}

export interface Account extends RowOf<'accounts', typeof ACCOUNT_COLUMNS>, MemberIds {}

export const DEFAULT_ASSIGNMENTS = ['environment:production']

/** Whether the company may use what its plan includes. */
export function isInForce({ subscriptionStatus }: Pick<Account, 'subscriptionStatus'>): boolean {
  return subscriptionStatus !== 'canceled' && subscriptionStatus !== 'suspended'
}

/** Whether the company's policy requires a second factor for this user. */
export function isConcerned(user: Pick<Account, 'userKind' | 'role' | 'secondFactorPolicy'>): boolean {
  if (user.userKind !== 'person') return false
  const policy = user.secondFactorPolicy
  return policy === 'everyone' || (policy === 'admins' && user.role === 'admin')
}

export const SUBSCRIPTION_STATUSES = [
  'trialing',
  'active',
  'past_due',
  'canceled',
  'suspended',
] as const satisfies readonly SubscriptionStatus[]

/** As migrations seed them. PLAN_FEATURES and ROLE_PERMISSIONS are for documents only: the database decides. */
export const ROLES = ['admin', 'analyst', 'auditor', 'developer', 'viewer'] as const
export const PLANS = ['starter', 'growth', 'enterprise'] as const
export const PLAN_FEATURES = {
  starter: ['risk_assessment'],
  growth: ['risk_assessment', 'event_ingest', 'reviews', 'analytics'],
  enterprise: ['risk_assessment', 'event_ingest', 'reviews', 'analytics', 'graph', 'policy'],
} as const satisfies Record<(typeof PLANS)[number], readonly string[]>
export const PERMISSIONS = [
  'risk:read',
  'risk:assess',
  'reviews:manage',
  'feedback:write',
  'graph:read',
  'analytics:read',
  'webhook-secret:manage',
  'policy:manage',
  'billing:manage',
  'members:manage',
  'audit:read',
  'events:inspect',
] as const
export const ROLE_PERMISSIONS = {
  admin: PERMISSIONS,
  analyst: ['risk:read', 'risk:assess', 'reviews:manage', 'feedback:write', 'graph:read', 'analytics:read'],
  auditor: ['audit:read'],
  developer: ['risk:read', 'risk:assess', 'analytics:read', 'events:inspect'],
  viewer: ['risk:read', 'analytics:read'],
} as const satisfies Record<(typeof ROLES)[number], readonly (typeof PERMISSIONS)[number][]>
