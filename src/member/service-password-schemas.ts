import { type TSchema, Type } from '@sinclair/typebox'
import { body, field, object, optionalBody, Time } from '../http/fields.ts'

export const orNull = <Schema extends TSchema>(schema: Schema, description: string, example: unknown) =>
  Type.Union([schema, Type.Null()], { description, examples: [example] })

const HOUR = '2026-11-20T10:00:00.000Z'
const noneOfOld = 'null for one that does not begin with gsp_'

export const WorkingPasswords = Type.Array(
  object('WorkingPassword', 'A password that works', {
    hint: orNull(Type.String(), `Its last four characters; ${noneOfOld}`, 'V6b7'),
    createdAt: orNull(Time, `When it was made; ${noneOfOld}`, '2026-11-20T10:15:00.000Z'),
    lastUsedAt: orNull(Time, 'When a server last signed in with it, to the hour; null if never', HOUR),
    expiresAt: orNull(Time, 'When it stops to work, since there is a newer one; null for the newest', null),
  }),
  {
    description:
      'Of a server: the passwords that work, two at most, the newest first. A person has no such list',
  },
)

export const ServicePassword = field(
  Type.String(),
  'Shown this once. Signing in with it gives tokens, not a cookie',
  'gsp_mK0l0pS3v9mI2l6s6K0c1c3sE2nq0tXy1V6b7r8s9t0',
)

export const MAX_PREVIOUS_SECONDS = 604_800

export const ServicePasswordBody = optionalBody(
  body('ServicePasswordBody', 'What becomes of the old password', {
    previousValidSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_PREVIOUS_SECONDS,
        description: 'How long the old one, and the sessions that it opens, work on; 0 if it is not said',
        examples: [86_400],
      }),
    ),
  }),
)
const untilWhen = 'When the old one stops to work; null if it did at once'
export const ServicePasswordReply = object(
  'ServicePasswordReply',
  'The password that takes the place of the old one',
  { password: ServicePassword, previousExpiresAt: orNull(Time, untilWhen, '2026-11-21T10:15:00.000Z') },
)
