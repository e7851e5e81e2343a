import { type Static, Type } from '@fastify/type-provider-typebox'
import { field, object, Time, Uuid } from '../http/fields.ts'

const word = (description: string, example: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[!-~]{1,100}$',
      'x-must': 'must be one word of ASCII',
      description,
      examples: [example],
    }),
  )

/** Other parameters of the form are ignored (RFC 7662, section 2.1). */
export const IntrospectBody = object('IntrospectBody', 'The credential', {
  token: field(
    Type.String(),
    'An access token, or the value of the session cookie',
    'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2ln',
  ),
})

const ID = '01890a5d-ac96-774b-bcce-b302099a8057'
const text = (description: string, example: string) =>
  Type.Optional(field(Type.String(), description, example))
const texts = (description: string, example: string[]) =>
  Type.Optional(field(Type.Array(Type.String()), description, example))
const seconds = (description: string) => Type.Optional(field(Type.Integer(), description, 1_795_169_700))

/** RFC 7662, section 2.2. One schema for active and inactive, because a union would be slow to serialize. */
export const IntrospectReply = object(
  'IntrospectReply',
  'The session, its user, and their rights at this moment',
  {
    active: field(Type.Boolean(), 'Whether the session is live and may act. Otherwise, the only field', true),
    token_type: text('`Bearer` for an access token, `session_cookie` for a cookie', 'Bearer'),
    iss: text('The issuer', 'https://auth.example.com/api'),
    aud: text('The audience', 'gatehouse'),
    sub: text('The user', ID),
    exp: seconds('When the credential expires, in Unix seconds'),
    iat: seconds('When the credential was issued, in Unix seconds'),
    auth_time: seconds('When the user last authenticated, in Unix seconds; absent if unknown'),
    amr: texts('How the user authenticated (RFC 8176); absent if unknown', ['pwd']),
    sid: text('The session', ID),
    company_id: text('The company', ID),
    role: text("The user's role in the company", 'analyst'),
    scope: text("The user's permissions, with single spaces between them", 'risk:read risk:assess'),
    subscription_status: text("Status of the company's subscription", 'active'),
    plan: text("The company's plan", 'growth'),
    plan_features: texts('Features of the plan', ['event_ingest', 'risk_assessment']),
  },
)

const METHOD = 'Method of the request that the proxy received. Without one, it counts as unsafe'

/** The session guard reads them: see session/credential.ts. */
export const VerifyHeaders = Type.Object({
  'x-original-method': text(METHOD, 'GET'),
  'x-forwarded-method': text(METHOD, 'GET'),
  origin: text('Its origin, as the client sent it', 'https://auth.example.com'),
  'sec-fetch-site': text('As the client sent it', 'same-origin'),
  'sec-fetch-mode': text('As the client sent it; `websocket` makes the request unsafe', 'cors'),
  upgrade: text('As the client sent it; any value makes the request unsafe', 'websocket'),
  'sec-websocket-key': text(
    'As the client sent it; any value makes the request unsafe',
    'dGhlIHNhbXBsZSBub25jZQ==',
  ),
})

export const VerifyQuery = Type.Object(
  {
    permission: word('A permission that the user must have', 'risk:read'),
    feature: word('A feature that the plan must include, with an active subscription', 'graph'),
  },
  { additionalProperties: false },
)
export type VerifyQuery = Static<typeof VerifyQuery>

const sent = (description: string) => ({ type: 'string', description })

export const VerifyReply = Type.Unsafe<undefined>({
  type: 'null',
  description: 'The session may pass',
  headers: {
    'X-Auth-Company': sent('The company'),
    'X-Auth-User': sent('The user'),
    'X-Auth-Session': sent('The session'),
    'X-Auth-Role': sent("The user's role, or `-`"),
    'X-Auth-Permissions': sent("The user's permissions, with single spaces between them; `-` for none"),
  },
})

export const FeedQuery = Type.Object(
  {
    after: Type.Optional(
      field(
        Type.String({ maxLength: 1_000 }),
        'The `next` of the page before; from the beginning without it',
        'WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ',
      ),
    ),
    limit: Type.Optional(
      field(Type.Integer({ minimum: 1, maximum: 1_000, default: 100 }), 'How many events at most', 1_000),
    ),
    wait: Type.Optional(
      field(
        Type.Integer({ minimum: 0, maximum: 25, default: 0 }),
        'Seconds to wait for the first event, if there is none yet',
        25,
      ),
    ),
  },
  { additionalProperties: false },
)

const FeedEvent = object('FeedEvent', 'An event as it was ingested', {
  companyId: field(Uuid, 'The company that sent it'),
  id: field(Type.String(), 'Of the event; unique in its company', 'payment-4711'),
  type: field(Type.String(), 'What happened', 'payment.created'),
  occurredAt: field(
    Type.Union([Time, Type.Null()]),
    'When it happened; null if the sender does not say',
    '2026-11-20T10:15:00.000Z',
  ),
  receivedAt: field(Time, 'When the service received it'),
  data: field(Type.Object({}, { additionalProperties: true }), 'The JSON value that was sent', {
    amount: 1200,
  }),
})

export const FeedReply = object('FeedReply', 'A page of events', {
  events: Type.Array(FeedEvent, { description: 'In the order of the feed' }),
  next: field(
    Type.Union([Type.String(), Type.Null()]),
    'The `after` of the next page; null while there was never an event',
    'WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ',
  ),
  isCaughtUp: field(Type.Boolean(), 'Whether nothing more can be given yet', true),
})
