import { Type } from '@fastify/type-provider-typebox'
import { PERMISSIONS, PLANS, ROLES, SUBSCRIPTION_STATUSES } from '../company/account.ts'
import { CompanyHandle, field, Id, object, Time, Uuid } from '../http/fields.ts'

export const RefreshHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{1,128}$',
      'x-must': 'must be 1 to 128 of A-Z a-z 0-9 _ -',
      description: 'A random key of this refresh, the same when it is tried again',
      examples: ['k3Zr9QpLx2'],
    }),
  ),
})

export const LogoutQuery = Type.Object(
  {
    scope: Type.Optional(
      field(Type.Literal('all'), 'All sessions of the user, and not this one alone', 'all'),
    ),
  },
  { additionalProperties: false },
)

const Role = Type.String({
  enum: [...ROLES],
  description: 'What the user is in the company',
  examples: ['admin'],
})

const account = {
  session: object('SessionTimes', 'The session and its times', {
    id: field(Uuid, 'The session'),
    createdAt: field(Time, 'When it was opened'),
    expiresAt: field(Time, 'When it ends, unless it is used before'),
  }),
  user: object('User', 'Who is signed in', {
    id: field(Uuid, 'The user'),
    email: field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example'),
    name: field(Type.String(), 'The name, as the user gave it', 'Ada Lovelace'),
    role: Role,
  }),
  subscription: object('Subscription', 'The subscription of the company', {
    status: field(
      Type.Union(SUBSCRIPTION_STATUSES.map((status) => Type.Literal(status))),
      'With `canceled` and `suspended`, no events are taken',
      'active',
    ),
    plan: Type.String({ enum: [...PLANS], description: 'What the company pays for', examples: ['growth'] }),
    currentPeriodEnd: field(Time, 'The end of the period that is paid, or of the trial'),
  }),
  planFeatures: field(Type.Array(Type.String()), 'What the plan includes', [
    'event_ingest',
    'risk_assessment',
  ]),
  permissions: field(
    Type.Array(Type.String({ enum: [...PERMISSIONS] })),
    'What the user may do at this moment',
    ['risk:read', 'risk:assess'],
  ),
  accessContext: object('AccessContext', 'Where the user acts, and as what', {
    companyId: field(Uuid, 'The company'),
    companyHandle: CompanyHandle,
    companyName: field(Type.String(), 'Its name', 'Acme'),
    role: Role,
    assignments: field(Type.Array(Type.String()), 'What the user works on', ['environment:production']),
  }),
}

export const SessionReply = object(
  'SessionReply',
  'The answer of cookie mode: no tokens, since the `Set-Cookie` header carries the session',
  account,
)

export const TokenReply = object(
  'TokenReply',
  'The answer of token mode: both tokens, and what the user may do',
  {
    accessToken: field(
      Type.String(),
      'ES256, `typ` `at+jwt`. Send it as `Authorization: Bearer`',
      'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2ln',
    ),
    refreshToken: field(
      Type.String(),
      'Send it to `/auth/refresh`, once, for its successor',
      'eyJhbGciOiJIUzI1NiIsInR5cCI6InJ0K2p3dCJ9.e30.c2ln',
    ),
    tokenType: field(Type.Literal('Bearer'), 'Always `Bearer`', 'Bearer'),
    expiresIn: field(Type.Integer(), 'Seconds for which the access token is good', 900),
    refreshExpiresIn: field(Type.Integer(), 'Seconds for which the refresh token is good', 604_800),
    ...account,
  },
)

export const SessionParams = Type.Object({ id: field(Id, 'The session to end') })

const OwnSession = object('OwnSession', 'A live session of the user', {
  id: field(Uuid, 'The session'),
  kind: field(Type.Union([Type.Literal('token'), Type.Literal('cookie')]), 'How it is carried', 'token'),
  createdAt: field(Time, 'When it was opened'),
  lastSeenAt: field(Time, 'Of the last refresh, or of the last use of a cookie to the minute'),
  userAgent: field(
    Type.Union([Type.String(), Type.Null()]),
    'The browser or program that opened it',
    'Mozilla/5.0',
  ),
  ipAddress: field(Type.Union([Type.String(), Type.Null()]), 'The IP address that opened it', '192.0.2.1'),
  current: field(Type.Boolean(), 'Whether it is the one that asks', true),
})

export const SessionsReply = object('SessionsReply', "The user's live sessions", {
  sessions: Type.Array(OwnSession, { description: 'Those used last first, at most 1 000' }),
})
