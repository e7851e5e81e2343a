import { Type } from '@fastify/type-provider-typebox'

/** A permission or a feature, as a header can carry it. */
const Word = Type.String({ pattern: '^[!-~]{1,100}$', 'x-must': 'must be one word of ASCII' })

export const VerifyQuery = Type.Object(
  { permission: Type.Optional(Word), feature: Type.Optional(Word) },
  { additionalProperties: false },
)
