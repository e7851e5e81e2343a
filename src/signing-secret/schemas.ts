import { Type } from '@fastify/type-provider-typebox'
import { field, optionalBody, Time, Uuid } from '../http/fields.ts'

/** Why requests with events are refused, as their company is told. */
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

export type RefusalReason = (typeof REFUSAL_REASONS)[number]

const Hint = Type.String({ description: 'The last four characters of the secret', examples: ['…a1B2'] })
const Version = Type.Integer({ description: 'Grows by one with each new secret', examples: [3] })
const orNull = <Schema extends Parameters<typeof field>[0]>(schema: Schema) =>
  Type.Union([schema, Type.Null()], {
    description: schema.description ?? '',
    ...(schema.examples !== undefined && { examples: schema.examples }),
  })

const CreatorEmail = Type.Union([Type.String(), Type.Null()], {
  description: 'Their e-mail; null once they are deleted',
  examples: ['ada@acme.example'],
})
const Creator = Type.Object(
  { id: field(Uuid, 'The user'), email: CreatorEmail },
  { title: 'SecretCreator', description: 'A user who made a secret' },
)

export const StatusReply = Type.Object(
  {
    configured: field(Type.Boolean(), 'Whether there is a secret; if not, the other fields are null', true),
    version: orNull(Version),
    hint: orNull(Hint),
    algorithm: orNull(
      Type.Literal('HMAC-SHA256', {
        description: 'What signatures are made with',
        examples: ['HMAC-SHA256'],
      }),
    ),
    createdAt: orNull(field(Time, 'When the secret was made')),
    createdBy: Type.Union([Creator, Type.Null()], { description: 'Who made the secret' }),
    lastUsedAt: orNull(field(Time, 'When events were last signed with it, to the minute')),
  },
  { title: 'SigningSecretStatus', description: 'The state of the signing secret, without the secret' },
)

export const RegenerateBody = optionalBody(
  Type.Object(
    {
      expectedVersion: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 2 ** 31 - 1,
          description: 'Refuse if the version is another one; 0 for none yet',
          examples: [3],
        }),
      ),
    },
    { additionalProperties: false, title: 'RegenerateBody', description: 'Which secret is to be replaced' },
  ),
)

export const RegenerateReply = Type.Object(
  {
    secret: field(
      Type.String(),
      '`whsec_` and the base64 of 32 bytes, which are the key of signatures; shown this once',
      'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
    ),
    version: Version,
    hint: Hint,
    createdAt: field(Time, 'When the secret was made'),
    previousInvalidatedAt: orNull(field(Time, 'From when the one before is refused; null for the first')),
  },
  { title: 'RegenerateReply', description: 'The new signing secret' },
)

export const RefusalsReply = Type.Object(
  {
    refusals: Type.Array(
      Type.Object(
        {
          reason: Type.Unsafe<RefusalReason>({
            type: 'string',
            enum: [...REFUSAL_REASONS],
            description: 'Why',
            examples: ['signature_mismatch'],
          }),
          count: field(Type.Integer(), 'How many requests', 12),
          firstAt: field(Time, 'When the first came'),
          lastAt: field(Time, 'When the last came'),
          ipAddress: field(Type.String(), 'Where the last came from', '192.0.2.1'),
          webhookId: Type.Union([Type.String(), Type.Null()], {
            description: 'The `webhook-id` of the last, if it had one',
            examples: ['msg_2KWPBgLlAfxdpx2AI54pPJ85f4W'],
          }),
          clockSkewSeconds: Type.Optional(
            field(Type.Integer(), "How far the sender's clock was ahead; negative if behind", -720),
          ),
        },
        { title: 'Refusals', description: 'Requests that were refused for one reason' },
      ),
      { description: 'The latest first' },
    ),
  },
  { title: 'RefusalsReply', description: 'Why events were refused' },
)
