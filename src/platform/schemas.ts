import { Type } from '@fastify/type-provider-typebox'

/** A permission or a feature, as a header can carry it. */
const Word = Type.String({ pattern: '^[!-~]{1,100}$', 'x-must': 'must be one word of ASCII' })

/** Of a form. Other parameters are ignored (RFC 7662, section 2.1). */
export const IntrospectBody = Type.Object({ token: Type.String() })

const text = Type.Optional(Type.String())
const texts = Type.Optional(Type.Array(Type.String()))
const seconds = Type.Optional(Type.Integer())

/** RFC 7662, section 2.2. With `active` false there is nothing else: a union of both would be slow to write. */
export const IntrospectReply = Type.Object({
  active: Type.Boolean(),
  token_type: text,
  iss: text,
  aud: text,
  sub: text,
  exp: seconds,
  iat: seconds,
  auth_time: seconds,
  amr: texts,
  sid: text,
  company_id: text,
  role: text,
  scope: text,
  subscription_status: text,
  plan: text,
  plan_features: texts,
})

export const VerifyQuery = Type.Object(
  { permission: Type.Optional(Word), feature: Type.Optional(Word) },
  { additionalProperties: false },
)
