import { type TSchema, Type } from '@sinclair/typebox'
import { body, field, object, optionalBody, Time } from '../http/fields.ts'

export const orNull = <Schema extends TSchema>(schema: Schema, description: string, example: unknown) =>
  Type.Union([schema, Type.Null()], { description, examples: [example] })

const HOUR = '2026-11-20T10:00:00.000Z'
const noneOfOld = 'null for a password without the prefix gsp_'

export const WorkingPasswords = Type.Array(
  object('WorkingPassword', 'Active password of a service account', {
    hint: orNull(Type.String(), `Last four characters; ${noneOfOld}`, 'V6b7'),
    createdAt: orNull(Time, `Time of creation; ${noneOfOld}`, '2026-11-20T10:15:00.000Z'),
    lastUsedAt: orNull(Time, 'Hour of the last sign-in with it; null if never', HOUR),
    expiresAt: orNull(Time, 'Time when it expires because there is a newer one; null for the newest', null),
  }),
  {
    description: 'Active passwords of a service account: at most two, newest first. Absent for people',
  },
)

export const ServicePassword = field(
  Type.String(),
  'Password, shown only once. Signing in with it returns tokens, not a cookie',
  'gsp_mK0l0pS3v9mI2l6s6K0c1c3sE2nq0tXy1V6b7r8s9t0',
)

export const MAX_PREVIOUS_SECONDS = 604_800

export const ServicePasswordBody = optionalBody(
  body('ServicePasswordBody', 'Validity of the previous password', {
    previousValidSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_PREVIOUS_SECONDS,
        description: 'Seconds for which the previous password and its sessions stay valid; 0 by default',
        examples: [86_400],
      }),
    ),
  }),
)
const untilWhen = 'Time when the previous password expires; null if it already has'
export const ServicePasswordReply = object('ServicePasswordReply', 'New password of the service account', {
  password: ServicePassword,
  previousExpiresAt: orNull(Time, untilWhen, '2026-11-21T10:15:00.000Z'),
})
