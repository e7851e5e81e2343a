import { Type } from '@fastify/type-provider-typebox'
import { Email, Id, Password, Time, Uuid } from '../http/fields.ts'

/** company/checks.ts decides which names are accepted. */
const Name = Type.String({ minLength: 1, maxLength: 100, description: 'one line' })
/** No pattern: a malformed token gets the same answer as an invalid one. */
const Token = Type.String({ maxLength: 1024 })

const closed = { additionalProperties: false }

export const RegisterBody = Type.Object(
  { companyName: Name, name: Name, email: Email, password: Password },
  closed,
)
export const RegisterReply = Type.Object({
  companyId: Uuid,
  userId: Uuid,
  status: Type.Literal('pending_verification'),
})

export const TokenBody = Type.Object({ token: Token }, closed)
export const VerifyReply = Type.Object({ companyId: Uuid, status: Type.Literal('active') })

export const AccountBody = Type.Object({ companyId: Id, email: Email }, closed)

/** Empty, so that it reveals nothing about the account. */
export const AcceptedReply = Type.Object({}, closed)

export const ResetBody = Type.Object({ token: Token, newPassword: Password }, closed)

export const PreviewReply = Type.Object({
  companyName: Type.String(),
  email: Type.String(),
  role: Type.String(),
  expiresAt: Time,
})

export const AcceptBody = Type.Object({ token: Token, name: Name, password: Password }, closed)
export const AcceptReply = Type.Object({ companyId: Uuid, userId: Uuid })
