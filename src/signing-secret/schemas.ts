import { Type } from '@fastify/type-provider-typebox'
import { optionalBody } from '../http/body.ts'
import { Time, Uuid } from '../http/fields.ts'

const Hint = Type.String({ description: 'the last four characters of the secret' })

const CreatorEmail = Type.Union([Type.String(), Type.Null()], { description: 'null if the user was deleted' })

/** All other fields are null if `configured` is false. */
export const StatusReply = Type.Object({
  configured: Type.Boolean(),
  version: Type.Union([Type.Integer(), Type.Null()]),
  hint: Type.Union([Hint, Type.Null()]),
  algorithm: Type.Union([Type.Literal('HMAC-SHA256'), Type.Null()]),
  createdAt: Type.Union([Time, Type.Null()]),
  createdBy: Type.Union([Type.Object({ id: Uuid, email: CreatorEmail }), Type.Null()]),
  lastUsedAt: Type.Union([Time, Type.Null()]),
})

export const RegenerateBody = optionalBody(
  Type.Object(
    { expectedVersion: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 })) },
    { additionalProperties: false },
  ),
)

export const RegenerateReply = Type.Object({
  secret: Type.String({ description: 'whsec_ and the base64 of 32 bytes; shown this once' }),
  version: Type.Integer(),
  hint: Hint,
  createdAt: Time,
  previousInvalidatedAt: Type.Union([Time, Type.Null()]),
})
