import { type Static, Type } from '@fastify/type-provider-typebox'

const MAX_EVENTS = 500
export const MAX_BODY_BYTES = 512 * 1024

// RFC 3339, section 5.6, within the limits of Postgres: no year 0, no fraction of a leap second, no offset of
// 16 hours or more. The format checks days and hours, but accepts any white space in place of the T.
const TIME =
  '^(?!0000)\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:(?:[0-5]\\d(?:\\.\\d+)?|60)(?:[Zz]|[+-](?:0\\d|1[0-5]):[0-5]\\d)$'

const Event = Type.Object(
  {
    id: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_.-]{1,128}$' })),
    type: Type.String({
      maxLength: 128,
      pattern: '^[a-z0-9_]+(?:\\.[a-z0-9_]+)*$',
      examples: ['payment.created'],
    }),
    occurredAt: Type.Optional(Type.String({ format: 'date-time', maxLength: 64, pattern: TIME })),
    data: Type.Object({}, { additionalProperties: true }),
  },
  { additionalProperties: false },
)
export type Event = Static<typeof Event>

const EventBatch = Type.Object(
  { events: Type.Array(Event, { minItems: 1, maxItems: MAX_EVENTS }) },
  { additionalProperties: false },
)

export const IngestBody = Type.Union([Event, EventBatch])

export const IngestHeaders = Type.Object({
  'x-company-id': Type.Optional(Type.String({ description: "the company's id" })),
  'webhook-id': Type.Optional(Type.String({ description: "the sender's idempotency key" })),
  'webhook-timestamp': Type.Optional(Type.String({ description: 'Unix seconds' })),
  'webhook-signature': Type.Optional(Type.String({ description: 'space-separated `v1,<base64>`' })),
})

export const IngestReply = Type.Object({ accepted: Type.Integer(), duplicates: Type.Integer() })
