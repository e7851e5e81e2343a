import { Type } from '@fastify/type-provider-typebox'
import { PERMISSIONS, PLANS, ROLES, SUBSCRIPTION_STATUSES } from '../company/account.ts'
import { CompanyHandle, field, Id, Time, Uuid } from '../http/fields.ts'

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
      Type.Literal('all', {
        description: 'All sessions of the user, and not this one alone',
        examples: ['all'],
      }),
    ),
  },
  { additionalProperties: false },
)

const Role = Type.String({
  enum: [...ROLES],
  description: 'What the user is in the company',
  examples: ['admin'],
})

/** The session, its user and the rights of the user, at the moment of the answer. */
const account = {
  session: Type.Object(
    {
      id: field(Uuid, 'The session'),
      createdAt: field(Time, 'When it was opened'),
      expiresAt: field(Time, 'When it ends, unless it is used before'),
    },
    { title: 'SessionTimes', description: 'The session and its times' },
  ),
  user: Type.Object(
    {
      id: field(Uuid, 'The user'),
      email: field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example'),
      name: field(Type.String(), 'The name, as the user gave it', 'Ada Lovelace'),
      role: Role,
    },
    { title: 'User', description: 'Who is signed in' },
  ),
  subscription: Type.Object(
    {
      status: Type.Union(
        SUBSCRIPTION_STATUSES.map((status) => Type.Literal(status)),
        { description: 'With `canceled` and `suspended`, no events are taken', examples: ['active'] },
      ),
      plan: Type.String({ enum: [...PLANS], description: 'What the company pays for', examples: ['growth'] }),
      currentPeriodEnd: field(Time, 'The end of the period that is paid, or of the trial'),
    },
    { title: 'Subscription', description: 'The subscription of the company' },
  ),
  planFeatures: field(Type.Array(Type.String()), 'What the plan includes', [
    'event_ingest',
    'risk_assessment',
  ]),
  permissions: Type.Array(Type.String({ enum: [...PERMISSIONS] }), {
    description: 'What the user may do at this moment',
    examples: [['risk:read', 'risk:assess']],
  }),
  accessContext: Type.Object(
    {
      companyId: field(Uuid, 'The company'),
      companyHandle: CompanyHandle,
      companyName: field(Type.String(), 'Its name', 'Acme'),
      role: Role,
      assignments: field(Type.Array(Type.String()), 'What the user works on', ['environment:production']),
    },
    { title: 'AccessContext', description: 'Where the user acts, and as what' },
  ),
}

export const SessionReply = Type.Object(account, {
  title: 'SessionReply',
  description: 'The answer of cookie mode: no tokens, since the `Set-Cookie` header carries the session',
})

export const TokenReply = Type.Object(
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
    tokenType: Type.Literal('Bearer', { description: 'Always `Bearer`', examples: ['Bearer'] }),
    expiresIn: field(Type.Integer(), 'Seconds for which the access token is good', 900),
    refreshExpiresIn: field(Type.Integer(), 'Seconds for which the refresh token is good', 604_800),
    ...account,
  },
  { title: 'TokenReply', description: 'The answer of token mode: both tokens, and what the user may do' },
)

export const SessionParams = Type.Object({ id: field(Id, 'The session to end') })

const OwnSession = Type.Object(
  {
    id: field(Uuid, 'The session'),
    kind: Type.Union([Type.Literal('token'), Type.Literal('cookie')], {
      description: 'How it is carried',
      examples: ['token'],
    }),
    createdAt: field(Time, 'When it was opened'),
    lastSeenAt: field(Time, 'Of the last refresh, or of the last use of a cookie to the minute'),
    userAgent: Type.Union([Type.String(), Type.Null()], {
      description: 'The browser or program that opened it',
      examples: ['Mozilla/5.0'],
    }),
    ipAddress: Type.Union([Type.String(), Type.Null()], {
      description: 'The IP address that opened it',
      examples: ['192.0.2.1'],
    }),
    current: field(Type.Boolean(), 'Whether it is the one that asks', true),
  },
  { title: 'OwnSession', description: 'A live session of the user' },
)

export const SessionsReply = Type.Object(
  { sessions: Type.Array(OwnSession, { description: 'Those used last first, at most 1 000' }) },
  { title: 'SessionsReply', description: "The user's live sessions" },
)
