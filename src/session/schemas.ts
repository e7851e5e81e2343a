import { Type } from '@fastify/type-provider-typebox'
import { PERMISSIONS, PLANS, ROLES, SUBSCRIPTION_STATUSES } from '../company/account.ts'
import { CompanyHandle, field, Id, object, Time, Uuid } from '../http/fields.ts'

export const RefreshHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,128}$',
      'x-must': 'must be 1 to 128 characters from A-Z, a-z, 0-9, _, and -',
      description: 'Random key for this request. Send the same key when you retry',
      examples: ['k3Zr9QpLx2'],
    }),
  ),
})

export const LogoutQuery = Type.Object(
  {
    scope: Type.Optional(
      field(Type.Literal('all'), '`all` to end all sessions of the user, not only this one', 'all'),
    ),
  },
  { additionalProperties: false },
)

const Role = Type.String({
  enum: [...ROLES],
  description: "The user's role in the company",
  examples: ['admin'],
})

const account = {
  session: object('SessionTimes', 'The session, its start, and its expiry', {
    id: field(Uuid, 'Session ID'),
    createdAt: field(Time, 'Start time'),
    expiresAt: field(
      Time,
      'Expiry time. Each refresh or use of the cookie extends it, up to the maximum age',
    ),
  }),
  user: object('User', 'The signed-in user', {
    id: field(Uuid, 'User ID'),
    email: field(Type.String(), 'Email as stored', 'ada@acme.example'),
    name: field(Type.String(), 'Name of the user', 'Ada Lovelace'),
    role: Role,
  }),
  subscription: object('Subscription', "The company's subscription", {
    status: field(
      Type.Union(SUBSCRIPTION_STATUSES.map((status) => Type.Literal(status))),
      'Status of the subscription. Events are rejected if it is `canceled` or `suspended`',
      'active',
    ),
    plan: Type.String({ enum: [...PLANS], description: "The company's plan", examples: ['growth'] }),
    currentPeriodEnd: field(Time, 'End of the paid period or the trial'),
  }),
  planFeatures: field(Type.Array(Type.String()), 'Features of the plan', ['event_ingest', 'risk_assessment']),
  permissions: field(Type.Array(Type.String({ enum: [...PERMISSIONS] })), "The user's current permissions", [
    'risk:read',
    'risk:assess',
  ]),
  accessContext: object('AccessContext', 'Company, role, and assignments of the user', {
    companyId: field(Uuid, 'Company ID'),
    companyHandle: CompanyHandle,
    companyName: field(Type.String(), 'Company name', 'Acme'),
    role: Role,
    assignments: field(Type.Array(Type.String()), 'Assignments of the user', ['environment:production']),
  }),
}

export const SessionReply = object(
  'SessionReply',
  'The session, its user, and their permissions, without tokens',
  account,
)

export const TokenReply = object('TokenReply', 'Both tokens, the session, its user, and their permissions', {
  accessToken: field(
    Type.String(),
    'JWT (ES256, `typ` `at+jwt`) to send as `Authorization: Bearer`',
    'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2ln',
  ),
  refreshToken: field(
    Type.String(),
    'JWT that works once, at `/auth/refresh`',
    'eyJhbGciOiJIUzI1NiIsInR5cCI6InJ0K2p3dCJ9.e30.c2ln',
  ),
  tokenType: field(Type.Literal('Bearer'), 'Always `Bearer`', 'Bearer'),
  expiresIn: field(Type.Integer(), 'Lifetime of the access token in seconds', 900),
  refreshExpiresIn: field(Type.Integer(), 'Lifetime of the refresh token in seconds', 604_800),
  ...account,
})

export const SessionParams = Type.Object({ id: field(Id, 'ID of the session to end') })

const OwnSession = object('OwnSession', 'An active session of the user', {
  id: field(Uuid, 'Session ID'),
  kind: field(
    Type.Union([Type.Literal('token'), Type.Literal('cookie')]),
    'Session mode: tokens or a cookie',
    'token',
  ),
  createdAt: field(Time, 'Start time'),
  lastSeenAt: field(Time, 'Time of the last refresh or, to the minute, of the last use of the cookie'),
  userAgent: field(
    Type.Union([Type.String(), Type.Null()]),
    'User agent that started the session',
    'Mozilla/5.0',
  ),
  ipAddress: field(
    Type.Union([Type.String(), Type.Null()]),
    'IP address that started the session',
    '192.0.2.1',
  ),
  current: field(Type.Boolean(), 'Whether this is the current session', true),
})

export const SessionsReply = object('SessionsReply', "The user's active sessions", {
  sessions: Type.Array(OwnSession, { description: 'Most recently used first, at most 1,000' }),
})
