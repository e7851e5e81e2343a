import { type Static, type StringOptions, Type } from '@fastify/type-provider-typebox'
import { body, field, object, Time } from '../http/fields.ts'
import type { KeptObject } from '../http/strict-json.ts'

const MAX_EVENTS = 500
export const MAX_BODY_BYTES = 512 * 1024

// RFC 3339, section 5.6, within the limits of Postgres: no year 0, no fraction of a leap second, no offset of
// 16 h or more. The format checks days and hours, but accepts any white space instead of the T.
const TIME =
  '^(?!0000)\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:(?:[0-5]\\d(?:\\.\\d+)?|60)(?:[Zz]|[+-](?:0\\d|1[0-5]):[0-5]\\d)$'

/** Many serializers write null for a missing value. */
function orNull(rules: StringOptions) {
  return Type.Optional(Type.Union([Type.String(rules), Type.Null()]))
}

export const KEPT_NAME = 'data'

const Event = body(
  'Event',
  'Event. If its ID is already stored, the same content is a duplicate, and different content a conflict',
  {
    id: field(
      // Longer than generated ids, because senders can send those again.
      orNull({
        pattern: '^[A-Za-z0-9_.-]{1,160}$',
        'x-must': 'must have 1 to 160 characters of A-Z a-z 0-9 _ . -',
      }),
      'ID of the event. By default `webhook-id`; in a batch, followed by `.` and the index',
      'payment-4711',
    ),
    type: Type.String({
      maxLength: 128,
      pattern: '^[a-z0-9_]+(?:\\.[a-z0-9_]+)*$',
      'x-must': 'must be words of a-z 0-9 _ separated by dots',
      description: 'Type of the event: lower-case words, separated by dots',
      examples: ['payment.created'],
    }),
    occurredAt: field(
      orNull({
        format: 'date-time',
        maxLength: 64,
        pattern: TIME,
        'x-must': 'must be a time with a T and an offset, such as 2026-11-20T10:15:00.000Z',
      }),
      'Time of the event (RFC 3339), with any offset',
      '2026-11-20T10:15:00.000Z',
    ),
    // The guard keeps the object's text, and strict JSON checks it.
    [KEPT_NAME]: Type.Unsafe<KeptObject>({
      type: 'object',
      additionalProperties: true,
      description:
        'Content of the event: any JSON object, at most 32 levels deep. Numbers keep the digits that you send',
      examples: [{ amount: 1200, currency: 'EUR' }],
    }),
  },
)
export type Event = Static<typeof Event>

const EventBatch = body('EventBatch', 'Batch of events', {
  events: Type.Array(Event, {
    minItems: 1,
    maxItems: MAX_EVENTS,
    description: 'Events, which are all stored, or none of them',
  }),
})
type EventBatch = Static<typeof EventBatch>

/** `events` selects the form, so that errors are about that form only. */
export const IngestBody = Type.Unsafe<Event | EventBatch>({
  type: 'object',
  if: { required: ['events'] },
  // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema
  then: EventBatch,
  else: Event,
  description: 'One event, or a batch',
})
export type IngestBody = Static<typeof IngestBody>

const header = (description: string, example: string) =>
  Type.Optional(Type.String({ description, examples: [example] }))
export const IngestHeaders = Type.Object({
  'x-company-id': header('ID of the company', '01890a5d-ac96-774b-bcce-b302099a8057'),
  'webhook-id': header(
    'Idempotency key of the sender: 1 to 128 characters of `A-Z a-z 0-9 _ -`',
    'msg_p5jXN8AQM9LWM0D4',
  ),
  'webhook-timestamp': header('Time of the signature in Unix seconds', '1795169700'),
  'webhook-signature': header(
    '`v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`. Of several, separated by spaces, one must be valid',
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  ),
})

export const IngestReply = object('IngestReply', 'Result, after the events are committed', {
  accepted: field(Type.Integer(), 'Number of stored events', 2),
  duplicates: field(Type.Integer(), 'Number of events that were already stored with the same content', 1),
})

export const MAX_WATCHED = 50
export const DEFAULT_WATCHED = 20

export const ReceivedEventsQuery = Type.Object(
  {
    limit: Type.Optional(
      field(
        Type.Integer({ minimum: 1, maximum: MAX_WATCHED, default: DEFAULT_WATCHED }),
        'Maximum number of events',
        50,
      ),
    ),
  },
  { additionalProperties: false },
)

const ReceivedEvent = object('ReceivedEvent', 'Event that the company sent', {
  id: field(Type.String(), 'ID of the event', 'payment-4711'),
  type: field(Type.String(), 'Type of the event', 'payment.created'),
  occurredAt: field(
    Type.Union([Time, Type.Null()]),
    'Time of the event; null if the sender did not send it',
    '2026-11-20T10:15:00.000Z',
  ),
  receivedAt: field(Time, 'Time when this service received the event'),
  data: Type.Optional(
    field(
      Type.Object({}, { additionalProperties: true }),
      'Content of the event, with the digits that were sent; absent if it is larger than 8 KiB',
      { amount: 1200, currency: 'EUR' },
    ),
  ),
  isTruncated: field(Type.Boolean(), 'Whether `data` is absent because it is too large', false),
})

export const ReceivedEventsReply = object('ReceivedEventsReply', 'Events that the company sent recently', {
  events: Type.Array(ReceivedEvent, { description: 'Events, newest first' }),
  watchedSince: field(Time, 'Start of the watch: events from before are not shown'),
})
