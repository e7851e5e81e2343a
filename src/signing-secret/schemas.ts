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

const Hint = field(Type.String(), 'Last four characters of the secret', '…a1B2')
const Version = field(Type.Integer(), 'Version, which increases by one with each new secret', 3)
const orNull = <Schema extends Parameters<typeof field>[0]>(schema: Schema) =>
  Type.Union([schema, Type.Null()], {
    description: schema.description ?? '',
    ...(schema.examples !== undefined && { examples: schema.examples }),
  })

const CreatorEmail = field(
  Type.Union([Type.String(), Type.Null()]),
  'Email; null once the user is deleted',
  'ada@acme.example',
)
const Creator = object('SecretCreator', 'User who created the secret', {
  id: field(Uuid, 'ID of the user'),
  email: CreatorEmail,
})

export const StatusReply = object('SigningSecretStatus', 'Status of the signing secret, without the secret', {
  configured: field(Type.Boolean(), 'Whether there is a secret. If not, all other fields are null', true),
  version: orNull(Version),
  hint: orNull(Hint),
  algorithm: orNull(field(Type.Literal('HMAC-SHA256'), 'Algorithm of the signatures', 'HMAC-SHA256')),
  createdAt: orNull(field(Time, 'Time of creation')),
  createdBy: Type.Union([Creator, Type.Null()], { description: 'User who created the secret' }),
  lastUsedAt: orNull(field(Time, 'Minute when it last signed an event')),
})

export const RegenerateBody = optionalBody(
  body('RegenerateBody', 'Secret to replace', {
    expectedVersion: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 2 ** 31 - 1,
        description:
          'Current version, or 0 if there is no secret yet. A different version returns `version_conflict`',
        examples: [3],
      }),
    ),
  }),
)

export const RegenerateReply = object('RegenerateReply', 'The new signing secret', {
  secret: field(
    Type.String(),
    '`whsec_` and the base64 of 32 bytes, which are the key of the signatures. Shown only once',
    'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
  ),
  version: Version,
  hint: Hint,
  createdAt: field(Time, 'Time of creation'),
  previousInvalidatedAt: orNull(
    field(Time, 'Time when the previous secret became invalid; null for the first secret'),
  ),
})

export const RefusalsReply = object('RefusalsReply', 'Refused event requests', {
  refusals: Type.Array(
    object('Refusals', 'Requests that were refused for the same reason', {
      reason: Type.Unsafe<EventRefusal>({
        type: 'string',
        enum: [...REFUSAL_REASONS],
        description: 'Reason of the refusal',
        examples: ['signature_mismatch'],
      }),
      count: field(Type.Integer(), 'Number of requests', 12),
      firstAt: field(Time, 'Time of the first request'),
      lastAt: field(Time, 'Time of the last request'),
      ipAddress: field(Type.String(), 'IP address of the last request', '192.0.2.1'),
      webhookId: field(
        Type.Union([Type.String(), Type.Null()]),
        '`webhook-id` of the last request; null if missing or malformed',
        'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
      ),
      clockSkewSeconds: Type.Optional(
        field(
          Type.Integer(),
          "Seconds by which the sender's clock was ahead, or behind if negative; only with `timestamp_stale`",
          -720,
        ),
      ),
    }),
    { description: 'Refusals, latest first' },
  ),
})
