import { Type } from '@fastify/type-provider-typebox'
import { field } from '../http/fields.ts'

/** A permission or a feature, as a header can carry it. */
const word = (description: string, example: string) =>
  Type.Optional(
    Type.String({
      pattern: '^[!-~]{1,100}$',
      'x-must': 'must be one word of ASCII',
      description,
      examples: [example],
    }),
  )

/** Of a form. Other parameters are ignored (RFC 7662, section 2.1). */
export const IntrospectBody = Type.Object(
  {
    token: field(
      Type.String(),
      'An access token, or the value of the session cookie',
      'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2ln',
    ),
  },
  { title: 'IntrospectBody', description: 'The credential' },
)

const ID = '01890a5d-ac96-774b-bcce-b302099a8057'
const text = (description: string, example: string) =>
  Type.Optional(field(Type.String(), description, example))
const texts = (description: string, example: string[]) =>
  Type.Optional(field(Type.Array(Type.String()), description, example))
const seconds = (description: string) => Type.Optional(field(Type.Integer(), description, 1_795_169_700))

/** RFC 7662, section 2.2. With `active` false there is nothing else: a union of both would be slow to write. */
export const IntrospectReply = Type.Object(
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
  { title: 'IntrospectReply', description: 'The session, its user, and their rights at this moment' },
)

const header = (description: string, example: string) =>
  Type.Optional(field(Type.String(), description, example))
const METHOD = 'Method of the request that the proxy received. Without one, it counts as unsafe'

/** Of the request that the proxy received. The guard reads them: see session/cookie.ts. */
export const VerifyHeaders = Type.Object({
  'x-original-method': header(METHOD, 'GET'),
  'x-forwarded-method': header(METHOD, 'GET'),
  origin: header('Its origin, as the client sent it', 'https://auth.example.com'),
  'sec-fetch-site': header('As the client sent it', 'same-origin'),
  'sec-fetch-mode': header('As the client sent it; `websocket` makes the request unsafe', 'cors'),
  upgrade: header('As the client sent it; any value makes the request unsafe', 'websocket'),
  'sec-websocket-key': header(
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

/** No body. */
export const VerifyReply = Type.Unsafe<undefined>({
  type: 'null',
  description: 'The session may pass',
  headers: {
    'X-Auth-Company': { type: 'string', description: 'The company' },
    'X-Auth-User': { type: 'string', description: 'The user' },
    'X-Auth-Session': { type: 'string', description: 'The session' },
    'X-Auth-Role': { type: 'string', description: "The user's role, or `-`" },
    'X-Auth-Permissions': {
      type: 'string',
      description: "The user's permissions, with single spaces between them; `-` for none",
    },
  },
})
