import { ACTIONS } from './audit/entry.ts'
import { PLAN_FEATURES, ROLE_PERMISSIONS } from './company/account.ts'
import type { Config } from './config/config.ts'
import { COUNTED, type Limits } from './config/limits.ts'
import { MAX_LENGTH } from './crypto/password.ts'
import { MIN_GUESSES, MIN_LENGTH, SERVICE_PREFIX } from './crypto/password-policy.ts'
import { inWords, type ProblemCode, rateOf, statusOf } from './errors.ts'
import { CODES } from './http/openapi/codes.ts'
import { ACCESS_AUDIENCE, type AccessClaims, issuerOf } from './token/claims.ts'

/** Introduction of the OpenAPI document, with the numbers of this deployment. */
export function guideOf(config: Config): string {
  return [rules(config), accessTokens(config), SIGNATURES, RIGHTS, TRAIL].join('\n')
}

export const PLATFORM_GUIDE = `Token introspection, forward authentication for reverse proxies, and the feed of ingested events.

\`/introspect\` and \`/events\` require a platform client, as HTTP Basic. \`/verify\` requires the credential of the request that
the proxy received. Responses describe the moment of the request: a service that caches one can act for a session that has
ended. Requests on this listener have no rate limits. Every error is \`application/problem+json\` (RFC 9457): programs read
\`code\`, and the examples explain what to do. After 503, retry the same request.
`

const rules = (
  config: Config,
) => `Sign-in, sessions, the event signing secret, and ingestion of signed events.

## Requests and responses

A body is one JSON object in UTF-8, sent as \`application/json\`, of at most 16 KiB (events: 512 KiB). Values are never converted
or dropped. A wrong type, an unknown field or parameter, or a duplicate name returns 400. So does a number that a 64-bit float
cannot represent as written. Numbers in the \`data\` of events only need to be in the range of a 64-bit float, with at most 400
characters. They keep the digits that you send.

IDs are UUIDs (version 7). Times are RFC 3339 in UTC, with milliseconds. Every response starts within 10 seconds. Its
\`X-Request-Id\` is the ID of the request in the log.

## Errors

Every error is \`application/problem+json\` (RFC 9457): \`code\` is for programs, and \`detail\` is for people. \`errors\` lists the
rejected values by JSON pointer (RFC 6901). After 429 or 503, wait as long as \`Retry-After\` says, then send the same request
again.

| code | status | meaning, and what to do |
|---|---|---|
${rowsOfCodes()}

## Credentials

| credential | valid for |
|---|---|
| access token | ${inWords(config.accessTokenTtlSeconds)} |
| refresh token | ${inWords(config.refreshTokenTtlSeconds)}, for one use, and at most ${inWords(config.sessionMaxAgeSeconds)} after sign-in |
| session cookie | ${inWords(config.cookieIdleSeconds)} after its last use, and at most ${inWords(config.cookieMaxAgeSeconds)} after sign-in |
| signature of an event | ${inWords(config.signatureToleranceSeconds)} before and after its \`webhook-timestamp\` |
| second-factor challenge | 5 minutes and 5 tries, until the password or a second factor changes |
| emailed link | one use: 24 hours to verify or confirm an email, 1 hour to reset a password, 72 hours for an invitation or an undo |

A company can set shorter limits for the sessions of its members (\`PATCH /auth/company/security\`).

If a request has an \`Authorization\` header, its cookie is ignored.

The service reads a user's rights from the database on every request. A logout, a disabled user, or a replaced secret takes
effect on the next request. If you retry a refresh with the same \`Idempotency-Key\` within
${inWords(config.idempotencyWindowSeconds)}, you get the same new refresh token. Any other second use of a refresh token ends its session.
Within ${inWords(config.refreshRaceSeconds)} of the first use, it only fails.

## Second factors

For members with an authenticator app or a passkey, a correct password returns 401 \`second_factor_required\`. Send the second
factor with the \`challenge\` to \`/auth/login/second-factor\`. A passkey is enough to sign in, at \`/auth/login/passkey\`.
Re-authentication works in the same way.

A company can require a second factor from its admins or from everyone, but not from service accounts. If it does, a session of
these members returns 403 \`second_factor_enrolment_required\` until it has used one. Only \`/auth/session\`, \`/auth/refresh\`,
\`/auth/logout\`, \`/auth/reauthenticate\`, and \`/auth/second-factors\` still work.

If \`GET /auth/second-factors\` returns \`mailCodeRequired\`, request a code at \`/auth/second-factors/mail-code\`. Send it as
\`mailCode\` with the authenticator app or the passkey.

\`amr\` in access tokens (RFC 8176) lists how the user signed in: \`pwd\` for a password, \`otp\` for a code, \`hwk\` or \`swk\`
and \`user\` for a passkey, and \`mfa\` for two factors.

## Passwords

A password has ${MIN_LENGTH} to ${MAX_LENGTH} characters after NFC normalization, without rules for its composition. It must take
at least ${MIN_GUESSES.toLocaleString('en')} guesses, as estimated by zxcvbn, which knows the email, the name, and the company.
A weaker one is rejected with the reason${config.breachedPasswordsUrl ? ', and so is a password from a known breach' : ''}. The prefix
\`${SERVICE_PREFIX}\` is reserved for service accounts.

## Service accounts

A service account is a member for a program (\`POST /auth/members\`). It signs in with its email and its own password, in token
mode only. A wrong password counts as a refused credential of the network. A correct one counts by service account, so that a
fleet can start behind one IP address.

To rotate a password without downtime:

1. Request a new password with \`previousValidSeconds\` (\`POST /auth/members/{id}/password\`).
2. Deploy it to all servers, and sign in again with it.
3. At \`previousExpiresAt\`, the previous password and its sessions expire.

## Limits

A network is an IPv4 address or an IPv6 /64. Above a limit, requests return 429 with \`Retry-After\`. Limited endpoints return
\`RateLimit\`, which shows the remaining uses.

| limit | maximum | counts |
|---|---|---|
${rowsOfLimits(config.limits)}
`

function toRows(rows: [code: string, ...cells: (string | number)[]][]): string {
  return rows.map(([code, ...cells]) => `| \`${code}\` | ${cells.join(' | ')} |`).join('\n')
}

function rowsOfCodes(): string {
  const codes = Object.keys(CODES).filter((code): code is ProblemCode => code in CODES)
  return toRows(codes.map((code) => [code, statusOf(code), CODES[code]]))
}

function rowsOfLimits(limits: Limits): string {
  const names: (keyof Limits)[] = Object.keys(COUNTED).filter((name): name is keyof Limits => name in limits)
  return toRows(
    names.map((name) => {
      const { max, windowSeconds } = limits[name]
      const most = name === 'auditReads' ? `${max}, ${inWords(windowSeconds)}` : rateOf(limits[name])
      return [limits[name].name, most, COUNTED[name]]
    }),
  )
}

function accessTokens(config: Config): string {
  const issuer = issuerOf(config)
  const claims: Record<Exclude<keyof AccessClaims, 'nbf'>, string> = {
    iss: `issuer: \`${issuer}\``,
    aud: `audience: \`${ACCESS_AUDIENCE}\``,
    sub: 'ID of the user',
    cid: 'ID of the company',
    sid: 'ID of the session',
    role: 'role of the user in the company',
    perms: 'permissions of the user',
    amr: 'how the user signed in (RFC 8176)',
    auth_time: 'time of the last authentication, in Unix seconds',
    jti: 'ID of the token',
    iat: 'time of issue, in Unix seconds',
    exp: 'time of expiry, in Unix seconds',
  }
  return `## Access tokens

An access token is a JWT (RFC 9068), signed with ES256 by a key from \`/.well-known/jwks.json\`. Its \`typ\` is \`at+jwt\`, and
IDs are UUIDs. Tokens of sessions from before version 1.1 have neither \`amr\` nor \`auth_time\`. Later versions may add claims.

| claim | value |
|---|---|
${toRows(Object.entries(claims))}

Services can verify access tokens offline. They then notice a logout or a new role only when the token expires, after at most
${inWords(config.accessTokenTtlSeconds)}. \`GET /auth/session\` shows it immediately.
`
}

const SIGNATURES = `## Signed events

Events are signed as in Standard Webhooks, whose libraries work unchanged. The HMAC key is not the text of the signing secret,
but the 32 bytes that you get by decoding the base64 after \`whsec_\`. Sign the bytes of the body exactly as you send them.
`

const RIGHTS = `## Roles and plans

These are the defaults. The sign-in response contains what currently applies. This service enforces \`webhook-secret:manage\`,
\`members:manage\`, \`audit:read\`, \`events:inspect\`, and the feature \`event_ingest\`. The other permissions and features are
for other services of the platform.

| role | permissions |
|---|---|
${rowsOfLists(ROLE_PERMISSIONS)}

| plan | features |
|---|---|
${rowsOfLists(PLAN_FEATURES)}
`

function rowsOfLists(lists: Record<string, readonly string[]>): string {
  return toRows(
    Object.entries(lists).map(([name, words]) => [name, words.map((word) => `\`${word}\``).join(' ')]),
  )
}

const TRAIL = `## The audit trail

The trail records actions in a company as entries that cannot be changed. \`outcome\` is \`done\` or \`refused\`, unless the table
names others. Operator actions on the whole service are not in the trail of any company.

| action | meaning |
|---|---|
${toRows(Object.entries(ACTIONS))}
`
