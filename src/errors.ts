import { type Static, Type } from '@sinclair/typebox'

export const catalogue = {
  invalid_request: [400, 'validation', 'Invalid request'],
  malformed_body: [400, 'validation', 'Malformed body'],
  malformed_http: [400, 'validation', 'Malformed HTTP message'],
  not_found: [404, 'validation', 'Not found'],
  method_not_allowed: [405, 'validation', 'Method not allowed'],
  request_timeout: [408, 'validation', 'Request timeout'],
  event_id_conflict: [409, 'validation', 'Event ID conflict'],
  version_conflict: [409, 'validation', 'Version conflict'],
  idempotency_conflict: [409, 'validation', 'Idempotency conflict'],
  already_member: [409, 'validation', 'Already a member'],
  handle_taken: [409, 'validation', 'Handle taken'],
  factor_required: [409, 'validation', 'Second factor required'],
  quota_reached: [409, 'validation', 'Quota reached'],
  session_changed: [409, 'validation', 'Session changed'],
  last_admin: [409, 'validation', 'Last admin'],
  cursor_expired: [410, 'validation', 'Cursor expired'],
  payload_too_large: [413, 'validation', 'Payload too large'],
  unsupported_media_type: [415, 'validation', 'Unsupported media type'],
  headers_too_large: [431, 'validation', 'Request header fields too large'],
  invalid_credentials: [401, 'authentication', 'Invalid credentials'],
  missing_credentials: [401, 'authentication', 'Missing credentials'],
  invalid_token: [401, 'authentication', 'Invalid token'],
  token_expired: [401, 'authentication', 'Token expired'],
  session_ended: [401, 'authentication', 'Session ended'],
  refresh_token_reused: [401, 'authentication', 'Refresh token reused'],
  invalid_signature: [401, 'authentication', 'Invalid signature'],
  second_factor_required: [401, 'authentication', 'Second factor required'],
  invalid_second_factor: [401, 'authentication', 'Invalid second factor'],
  invalid_client: [401, 'authentication', 'Invalid client'],
  permission_denied: [403, 'permission', 'Permission denied'],
  reauthentication_required: [403, 'permission', 'Re-authentication required'],
  second_factor_enrolment_required: [403, 'permission', 'Second factor enrollment required'],
  email_not_verified: [403, 'permission', 'Email not verified'],
  cross_site_request: [403, 'permission', 'Cross-site request'],
  subscription_inactive: [402, 'billing', 'Subscription inactive'],
  feature_not_in_plan: [402, 'billing', 'Feature not in plan'],
  rate_limited: [429, 'rate-limit', 'Too many requests'],
  overloaded: [503, 'availability', 'Overloaded'],
  unavailable: [503, 'availability', 'Temporarily unavailable'],
  internal_error: [500, 'internal', 'Internal error'],
} as const satisfies Record<string, readonly [status: number, category: string, title: string]>

export type ProblemCode = keyof typeof catalogue

const END_REASONS = [
  'logout',
  'refresh_reuse',
  'expired',
  'password_changed',
  'password_reset',
  'superseded',
  'user_disabled',
  'user_deleted',
  'company_suspended',
  'ended_by_user',
  'ended_by_admin',
  'ended_by_operator',
  'reauthentication_failed',
] as const

export type EndReason = (typeof END_REASONS)[number]

export interface SecondFactorRequest {
  challenge: string
  methods: string[]
  passkeyOptions?: object
}

export interface LimitState {
  name: string
  max: number
  windowSeconds: number
  remaining: number
  resetSeconds: number
}

export interface RefusalContext {
  companyId?: string
  userId?: string
  sessionId?: string
  reason?: string
}

interface Extras {
  errors?: { path: string; message: string }[]
  reason?: EndReason
  retryAfterSeconds?: number
  /** For the RateLimit headers, even if the limit is not exceeded. */
  limit?: LimitState
  secondFactor?: SecondFactorRequest
  /** The error code of RFC 6749, where clients expect one. */
  error?: string
  oldest?: string
  headers?: Record<string, string>
  /** Replaces the code's own status where a proxy understands only this one. */
  status?: number
  /** Only for the log line: the client must not see it. */
  logContext?: RefusalContext
  cause?: unknown
}

/** A refusal that the client sees: `detail` must not contain a secret. */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly extras: Extras

  constructor(code: ProblemCode, detail: string, extras: Extras = {}) {
    super(detail, { cause: extras.cause })
    this.name = 'Problem'
    this.code = code
    this.extras = extras
  }
}

export function withLogContext({ code, message, extras }: Problem, logContext: RefusalContext): Problem {
  return new Problem(code, message, { ...extras, logContext })
}

/** `message` continues a sentence that starts with the field's name. `querystring/name` is a parameter of the URL. */
export function invalidField(field: string, message: string, detail = sentenceOf(field, message)): Problem {
  return new Problem('invalid_request', detail, { errors: [{ path: `/${field}`, message }] })
}

/** A field error that pages recognize. */
export const EMAIL_TAKEN = 'is for an email address that another member already uses'

function sentenceOf(field: string, message: string): string {
  return `"${field.split('/').at(-1)}" ${message}.`
}

export function rateLimited(limit: LimitState): Problem {
  const { resetSeconds } = limit
  return new Problem(
    'rate_limited',
    `Rate limit exceeded: at most ${rateOf(limit)}. Retry after ${inWords(resetSeconds)}.`,
    { limit, retryAfterSeconds: resetSeconds },
  )
}

/** Such as "1,000 per second" or "10 per 15 minutes". */
export function rateOf({ max, windowSeconds }: Pick<LimitState, 'max' | 'windowSeconds'>): string {
  return `${max.toLocaleString('en')} per ${inWords(windowSeconds).replace(/^1 /, '')}`
}

const UNITS = Object.entries({ day: 86_400, hour: 3_600, minute: 60, second: 1 })

/** In the largest unit without a remainder. */
export function inWords(seconds: number): string {
  const [unit, length] = UNITS.find(([, length]) => seconds >= length && seconds % length === 0) ?? [
    'second',
    1,
  ]
  const count = seconds / length
  return `${count.toLocaleString('en')} ${unit}${count === 1 ? '' : 's'}`
}

export function overloaded(
  detail = 'The service is handling too many requests. Retry after 1 second.',
): Problem {
  return new Problem('overloaded', detail, { retryAfterSeconds: 1 })
}

const text = (description: string, example: string) => Type.String({ description, examples: [example] })

export const ProblemReply = Type.Object(
  {
    type: text('URN of the code', 'urn:gatehouse:problem:invalid_request'),
    title: text('Code in words', 'Invalid request'),
    status: Type.Integer({ description: 'HTTP status', examples: [400] }),
    detail: text('Explanation for people: what happened, and what to do', '"email" is missing.'),
    category: Type.String({
      enum: [...new Set(Object.values(catalogue).map(([, category]) => category))],
      description: 'Kind of problem',
      examples: ['validation'],
    }),
    code: Type.String({
      enum: Object.keys(catalogue),
      description: 'Stable name of the problem, for programs; the introduction explains each one',
      examples: ['invalid_request'],
    }),
    error: Type.Optional(
      text(
        'Error code of RFC 6749; only from `POST /introspect`, on the platform listener',
        'invalid_client',
      ),
    ),
    help: Type.Optional(
      text(
        'Documentation of the code; absent if the deployment serves no pages',
        'https://auth.example.com/docs/errors#invalid_request',
      ),
    ),
    requestId: text('ID of the request in the log', '01890a5d-ac96-774b-bcce-b302099a8057'),
    reason: Type.Optional(
      Type.Unsafe<EndReason>({
        type: 'string',
        enum: [...END_REASONS],
        description: 'Reason why the session ended; only with `session_ended` and `refresh_token_reused`',
        examples: ['logout'],
      }),
    ),
    challenge: Type.Optional(
      text(
        'Challenge to send with the second factor within 5 minutes; only with `second_factor_required`',
        '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
      ),
    ),
    methods: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Methods that the member can use for the challenge; only with `second_factor_required`',
        examples: [['totp', 'recovery_code']],
      }),
    ),
    passkeyOptions: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'Argument for `navigator.credentials.get` (WebAuthn, PublicKeyCredentialRequestOptionsJSON), if the member has a passkey; only with `second_factor_required`',
          examples: [{ challenge: '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', rpId: 'auth.example.com' }],
        },
      ),
    ),
    oldest: Type.Optional(
      text(
        'Cursor that continues with the oldest remaining event; only with `cursor_expired`',
        'WyIwMTg5MGE1ZC1hYzk2LTc3NGIiXQ',
      ),
    ),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          {
            path: text(
              'JSON pointer (RFC 6901) into the body; for other parts, it starts with `/querystring`, `/headers`, or `/params`',
              '/email',
            ),
            message: text('End of a sentence that starts with the name of the field', 'is missing'),
          },
          { title: 'InvalidValue', description: 'Rejected value' },
        ),
        { description: 'Rejected values; only with `invalid_request`' },
      ),
    ),
  },
  { $id: 'Problem', description: 'Problem details (RFC 9457)' },
)

/** `docsUrl` is undefined if the deployment serves no pages. */
export function toReply(problem: Problem, requestId: string, docsUrl?: string): Static<typeof ProblemReply> {
  const [, category, title] = catalogue[problem.code]
  const { reason, error, errors, secondFactor, oldest } = problem.extras
  return {
    type: `urn:gatehouse:problem:${problem.code}`,
    title,
    status: statusOfProblem(problem),
    detail: problem.message,
    category,
    code: problem.code,
    ...(docsUrl && { help: `${docsUrl}/errors#${problem.code}` }),
    ...(error && { error }),
    requestId,
    ...(reason && { reason }),
    ...secondFactor,
    ...(oldest && { oldest }),
    ...(errors && { errors }),
  }
}

export function statusOf(code: ProblemCode): number {
  return catalogue[code][0]
}

export function statusOfProblem({ code, extras }: Problem): number {
  return extras.status ?? statusOf(code)
}
