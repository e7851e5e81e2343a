import { Type } from '@fastify/type-provider-typebox'
import { NAME_PATTERN } from '../company/service.ts'

const Uuid = Type.String({ format: 'uuid' })
const CompanyId = Type.String({ format: 'uuid', maxLength: 36 })
const Email = Type.String({ format: 'email', maxLength: 254 })
const Name = Type.String({ minLength: 1, maxLength: 100, pattern: NAME_PATTERN })
/** What may be chosen is told by the policy; this bounds the work of telling. */
const NewPassword = Type.String({ minLength: 1, maxLength: 1024 })
/** What is no token at all is answered as one that does not work. */
const Token = Type.String({ maxLength: 1024 })

const closed = { additionalProperties: false }

export const RegisterBody = Type.Object(
  { companyName: Name, name: Name, email: Email, password: NewPassword },
  closed,
)
export const RegisterReply = Type.Object({
  companyId: Uuid,
  userId: Uuid,
  status: Type.Literal('pending_verification'),
})

export const TokenBody = Type.Object({ token: Token }, closed)
export const VerifyReply = Type.Object({ companyId: Uuid, status: Type.Literal('active') })

export const AccountBody = Type.Object({ companyId: CompanyId, email: Email }, closed)

/** Says nothing, whatever happens next. */
export const AcceptedReply = Type.Object({}, closed)

export const ResetBody = Type.Object({ token: Token, newPassword: NewPassword }, closed)

export const PreviewReply = Type.Object({
  companyName: Type.String(),
  email: Type.String(),
  role: Type.String(),
  expiresAt: Type.String({ format: 'date-time' }),
})

export const AcceptBody = Type.Object({ token: Token, name: Name, password: NewPassword }, closed)
export const AcceptReply = Type.Object({ companyId: Uuid, userId: Uuid })
