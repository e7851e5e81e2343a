import { Type } from '@fastify/type-provider-typebox'
import { SUBSCRIPTION_STATUSES } from '../company/account.ts'
import { Email, Id, Password, Time, Uuid } from '../http/fields.ts'

export const LoginBody = Type.Object(
  {
    companyId: Id,
    email: Email,
    password: Password,
  },
  { additionalProperties: false },
)

export const LoginHeaders = Type.Object({
  'x-session-mode': Type.Optional(Type.Union([Type.Literal('token'), Type.Literal('cookie')])),
})

export const RefreshHeaders = Type.Object({
  'idempotency-key': Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,128}$' })),
})

export const LogoutQuery = Type.Object(
  { scope: Type.Optional(Type.Literal('all')) },
  { additionalProperties: false },
)

/** The session, its user and the rights of the user, at the moment of the answer. */
export const SessionReply = Type.Object({
  session: Type.Object({ id: Uuid, createdAt: Time, expiresAt: Time }),
  user: Type.Object({ id: Uuid, email: Type.String(), name: Type.String(), role: Type.String() }),
  subscription: Type.Object({
    status: Type.Union(SUBSCRIPTION_STATUSES.map((status) => Type.Literal(status))),
    plan: Type.String(),
    currentPeriodEnd: Time,
  }),
  planFeatures: Type.Array(Type.String()),
  permissions: Type.Array(Type.String()),
  accessContext: Type.Object({
    companyId: Uuid,
    companyName: Type.String(),
    role: Type.String(),
    assignments: Type.Array(Type.String()),
  }),
})

export const TokenReply = Type.Object({
  accessToken: Type.String(),
  refreshToken: Type.String(),
  tokenType: Type.Literal('Bearer'),
  expiresIn: Type.Integer({ description: 'seconds' }),
  refreshExpiresIn: Type.Integer({ description: 'seconds' }),
  ...SessionReply.properties,
})

export const SessionParams = Type.Object({ id: Id })

export const SessionsReply = Type.Object({
  sessions: Type.Array(
    Type.Object({
      id: Uuid,
      kind: Type.Union([Type.Literal('token'), Type.Literal('cookie')]),
      createdAt: Time,
      lastSeenAt: Type.String({
        format: 'date-time',
        description: 'of the last refresh, or of the last use of a cookie to the minute',
      }),
      userAgent: Type.Union([Type.String(), Type.Null()]),
      ipAddress: Type.Union([Type.String(), Type.Null()]),
      current: Type.Boolean({ description: 'whether it is the one that asks' }),
    }),
  ),
})

export const PasswordChangeBody = Type.Object(
  { currentPassword: Password, newPassword: Password },
  { additionalProperties: false },
)

/** In cookie mode the body has no tokens. */
export const LoginReply = Type.Union([TokenReply, SessionReply])
