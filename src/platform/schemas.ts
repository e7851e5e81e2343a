import { type Static, Type } from '@fastify/type-provider-typebox'
import { field, object, Time, Uuid } from '../http/fields.ts'

const word = (description: string, example: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[!-~]{1,100}$',
      'x-must': 'must have 1 to 100 ASCII characters, without spaces',
      description,
      examples: [example],
    }),
  )

/** Other parameters of the form are ignored (RFC 7662, section 2.1). */
export const IntrospectBody = object('IntrospectBody', 'Credential to introspect', {
  token: field(
    Type.String(),
    'Access token, or value of the session cookie',
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
export const IntrospectReply = object('IntrospectReply', 'Session, user, and current rights', {
  active: field(Type.Boolean(), 'Whether the credential is active. If not, this is the only field', true),
  token_type: text('`Bearer` for an access token, `session_cookie` for a cookie', 'Bearer'),
  iss: text('Issuer', 'https://auth.example.com/api'),
  aud: text('Audience', 'gatehouse'),
  sub: text('ID of the user', ID),
  exp: seconds('Time when the credential expires, in Unix seconds'),
  iat: seconds('Time when the credential was issued, in Unix seconds'),
  auth_time: seconds('Time of the last authentication, in Unix seconds; absent if unknown'),
  amr: texts('Methods of the last authentication (RFC 8176); absent if unknown', ['pwd']),
  sid: text('ID of the session', ID),
  company_id: text('ID of the company', ID),
  role: text('Role of the user in the company', 'analyst'),
  scope: text('Permissions of the user, separated by single spaces', 'risk:read risk:assess'),
  subscription_status: text('Status of the subscription', 'active'),
  plan: text('Plan of the company', 'growth'),
  plan_features: texts('Features of the plan', ['event_ingest', 'risk_assessment']),
})

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
    permission: word('Permission that the user must have', 'risk:read'),
    feature: word('Feature that the plan must include, with an active subscription', 'graph'),
  },
  { additionalProperties: false },
)
export type VerifyQuery = Static<typeof VerifyQuery>

const sent = (description: string) => ({ type: 'string', description })

export const VerifyReply = Type.Unsafe<undefined>({
  type: 'null',
  description: 'The session may pass',
  headers: {
    'X-Auth-Company': sent('ID of the company'),
    'X-Auth-User': sent('ID of the user'),
    'X-Auth-Session': sent('ID of the session'),
    'X-Auth-Role': sent('Role of the user, or `-`'),
    'X-Auth-Permissions': sent('Permissions of the user, separated by single spaces, or `-`'),
  },
})

export const FeedQuery = Type.Object(
  {
    after: Type.Optional(
      field(
        Type.String({ maxLength: 1_000 }),
        '`next` of the previous page; without it, the feed starts at the beginning',
        'WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ',
      ),
    ),
    limit: Type.Optional(
      field(Type.Integer({ minimum: 1, maximum: 1_000, default: 100 }), 'Maximum number of events', 1_000),
    ),
    wait: Type.Optional(
      field(
        Type.Integer({ minimum: 0, maximum: 25, default: 0 }),
        'Seconds to wait for the first event if there is none yet',
        25,
      ),
    ),
  },
  { additionalProperties: false },
)

const FeedEvent = object('FeedEvent', 'Ingested event', {
  companyId: field(Uuid, 'ID of the company that sent the event'),
  id: field(Type.String(), 'ID of the event, unique in its company', 'payment-4711'),
  type: field(Type.String(), 'Type of the event', 'payment.created'),
  occurredAt: field(
    Type.Union([Time, Type.Null()]),
    'Time of the event; null if the sender did not send it',
    '2026-11-20T10:15:00.000Z',
  ),
  receivedAt: field(Time, 'Time when the service received the event'),
  data: field(Type.Object({}, { additionalProperties: true }), 'Content of the event, as it was sent', {
    amount: 1200,
  }),
})

export const FeedReply = object('FeedReply', 'Page of events', {
  events: Type.Array(FeedEvent, { description: 'Events, in the order of the feed' }),
  next: field(
    Type.Union([Type.String(), Type.Null()]),
    '`after` of the next page; null until there is a first event',
    'WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ',
  ),
  isCaughtUp: field(Type.Boolean(), 'Whether no more events are available yet', true),
})
