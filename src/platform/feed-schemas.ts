import { Type } from '@sinclair/typebox'
import { field, Time, Uuid } from '../http/fields.ts'

export const FeedQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({
        maxLength: 1_000,
        description: 'The `next` of the page before; from the beginning without it',
        examples: ['WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ'],
      }),
    ),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        default: 100,
        description: 'How many events at most',
        examples: [1_000],
      }),
    ),
    wait: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 25,
        default: 0,
        description: 'Seconds to wait for the first event, if there is none yet',
        examples: [25],
      }),
    ),
  },
  { additionalProperties: false },
)

const FeedEvent = Type.Object(
  {
    companyId: field(Uuid, 'The company that sent it'),
    id: Type.String({ description: 'Of the event; unique in its company', examples: ['payment-4711'] }),
    type: Type.String({ description: 'What happened', examples: ['payment.created'] }),
    occurredAt: Type.Union([Time, Type.Null()], {
      description: 'When it happened; null if the sender does not say',
      examples: ['2026-11-20T10:15:00.000Z'],
    }),
    receivedAt: field(Time, 'When the service received it'),
    data: Type.Object(
      {},
      {
        additionalProperties: true,
        description: 'The JSON value that was sent',
        examples: [{ amount: 1200 }],
      },
    ),
  },
  { title: 'FeedEvent', description: 'An event as it was ingested' },
)

export const FeedReply = Type.Object(
  {
    events: Type.Array(FeedEvent, { description: 'In the order of the feed' }),
    next: Type.Union([Type.String(), Type.Null()], {
      description: 'The `after` of the next page; null while there was never an event',
      examples: ['WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ'],
    }),
    isCaughtUp: Type.Boolean({ description: 'Whether nothing more can be given yet', examples: [true] }),
  },
  { title: 'FeedReply', description: 'A page of events' },
)
