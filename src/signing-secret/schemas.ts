import { Type } from '@fastify/type-provider-typebox'
import { body, field, object, optionalBody, Time, Uuid } from '../http/fields.ts'

/** Shown to the company whose events were refused. */
export const REFUSAL_REASONS = [
  'header_missing',
  'timestamp_malformed',
  'timestamp_stale',
  'signature_malformed',
  'signature_mismatch',
  'previous_secret',
  'subscription_inactive',
  'feature_not_in_plan',
  'malformed_body',
  'invalid_request',
  'event_id_conflict',
  'rate_limited',
] as const

export type EventRefusal = (typeof REFUSAL_REASONS)[number]

const Hint = field(Type.String(), 'The last four characters of the secret', '…a1B2')
const Version = field(Type.Integer(), 'Grows by one with each new secret', 3)
const orNull = <Schema extends Parameters<typeof field>[0]>(schema: Schema) =>
  Type.Union([schema, Type.Null()], {
    description: schema.description ?? '',
    ...(schema.examples !== undefined && { examples: schema.examples }),
  })

const CreatorEmail = field(
  Type.Union([Type.String(), Type.Null()]),
  'Their e-mail; null once they are deleted',
  'ada@acme.example',
)
const Creator = object('SecretCreator', 'A user who made a secret', {
  id: field(Uuid, 'The user'),
  email: CreatorEmail,
})

export const StatusReply = object(
  'SigningSecretStatus',
  'The state of the signing secret, without the secret',
  {
    configured: field(Type.Boolean(), 'Whether there is a secret; if not, the other fields are null', true),
    version: orNull(Version),
    hint: orNull(Hint),
    algorithm: orNull(field(Type.Literal('HMAC-SHA256'), 'What signatures are made with', 'HMAC-SHA256')),
    createdAt: orNull(field(Time, 'When the secret was made')),
    createdBy: Type.Union([Creator, Type.Null()], { description: 'Who made the secret' }),
    lastUsedAt: orNull(field(Time, 'When events were last signed with it, to the minute')),
  },
)

export const RegenerateBody = optionalBody(
  body('RegenerateBody', 'Which secret is to be replaced', {
    expectedVersion: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 2 ** 31 - 1,
        description: 'Refuse if the version is another one; 0 for none yet',
        examples: [3],
      }),
    ),
  }),
)

export const RegenerateReply = object('RegenerateReply', 'The new signing secret', {
  secret: field(
    Type.String(),
    '`whsec_` and the base64 of 32 bytes, which are the key of signatures; shown this once',
    'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
  ),
  version: Version,
  hint: Hint,
  createdAt: field(Time, 'When the secret was made'),
  previousInvalidatedAt: orNull(field(Time, 'From when the one before is refused; null for the first')),
})

export const RefusalsReply = object('RefusalsReply', 'Why events were refused', {
  refusals: Type.Array(
    object('Refusals', 'Requests that were refused for one reason', {
      reason: Type.Unsafe<EventRefusal>({
        type: 'string',
        enum: [...REFUSAL_REASONS],
        description: 'Why',
        examples: ['signature_mismatch'],
      }),
      count: field(Type.Integer(), 'How many requests', 12),
      firstAt: field(Time, 'When the first came'),
      lastAt: field(Time, 'When the last came'),
      ipAddress: field(Type.String(), 'Where the last came from', '192.0.2.1'),
      webhookId: field(
        Type.Union([Type.String(), Type.Null()]),
        'The `webhook-id` of the last, if it had one',
        'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
      ),
      clockSkewSeconds: Type.Optional(
        field(Type.Integer(), "How far the sender's clock was ahead; negative if behind", -720),
      ),
    }),
    { description: 'The latest first' },
  ),
})
