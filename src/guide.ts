import { ACTIONS } from './audit/entry.ts'
import { PLAN_FEATURES, ROLE_PERMISSIONS } from './company/account.ts'
import type { Config } from './config/config.ts'
import { COUNTED, type Limits } from './config/limits.ts'
import { MAX_LENGTH } from './crypto/password.ts'
import { MIN_GUESSES, MIN_LENGTH, SERVICE_PREFIX } from './crypto/password-policy.ts'
import { type ProblemCode, statusOf } from './errors.ts'
import { CODES } from './http/openapi/codes.ts'
import { ACCESS_AUDIENCE, type AccessClaims, issuerOf } from './token/claims.ts'

/** Introduction of the OpenAPI document, with the numbers of this deployment. */
export function guideOf(config: Config): string {
  return [rules(config), accessTokens(config), SIGNATURES, RIGHTS, TRAIL].join('\n')
}

export const PLATFORM_GUIDE = `Whose credential a request has, forward authentication for reverse proxies, and ingested events.

\`/introspect\` and \`/events\` take a platform client as HTTP Basic. \`/verify\` takes the credential of the request that
a proxy has received. Responses describe the moment of the request, so a service that keeps one can act for a session that has
ended. No limit counts requests here. Every error is \`application/problem+json\` (RFC 9457): \`code\` tells programs what
happened, and the examples say what to do. After 503, the same request can be sent again.
`

const rules = (config: Config) => `Sign-in, sessions, the event-signing secret and signed event ingestion.

## Requests and answers

Bodies are one JSON object in UTF-8, as \`application/json\`, of at most 16 KiB (events: 512 KiB). Nothing is coerced and
nothing is dropped: a wrong type, an unknown field or parameter, a duplicate name, and a number that a 64-bit
float cannot hold as written are 400. Numbers in the \`data\` of events only need to be in the range of a 64-bit float,
with at most 400 characters; they keep the digits that you send. Ids are UUIDs (version 7). Times are RFC 3339 in UTC with milliseconds. Every answer
has \`X-Request-Id\`, which names it in the log, and begins within 10 s.

## Errors

Every error is \`application/problem+json\` (RFC 9457): \`code\` tells programs what happened, \`detail\` tells people what to
do, and \`errors\` names the values that are not accepted by JSON pointer (RFC 6901). After 503, and after 429 once
\`Retry-After\` is over, the same request can be sent again.

| code | status | what it means, and what to do |
|---|---|---|
${rowsOfCodes()}

## Credentials

| credential | good for |
|---|---|
| access token | ${config.accessTokenTtlSeconds} s |
| refresh token | ${config.refreshTokenTtlSeconds} s, once; never beyond ${config.sessionMaxAgeSeconds} s after sign-in |
| session cookie | ${config.cookieIdleSeconds} s after its last use, ${config.cookieMaxAgeSeconds} s after sign-in |
| signature of an event | ${config.signatureToleranceSeconds} s around its \`webhook-timestamp\` |
| challenge of a second factor | 300 s and 5 tries; void after another password or factor |
| mailed link | to verify 24 h, to reset 1 h, an invitation 72 h; once |

If a request has an \`Authorization\` header, its cookie is ignored.

What a user may do is read from the database for each request: a logout, a disabled user or a replaced secret holds
from the next request on. A refresh that is tried again with the same \`Idempotency-Key\` within
${config.idempotencyWindowSeconds} s gets the same successor. A refresh token that is used twice ends its session, unless the
uses are at most ${config.refreshRaceSeconds} s apart; then the later one is only refused.

## Second factors

A member with an authenticator app or a passkey gets 401 \`second_factor_required\` for the right password, and goes on with its
\`challenge\` at \`/auth/login/second-factor\`. A passkey alone signs in at \`/auth/login/passkey\`. What asks for a recent proof
asks for the same. A company can ask its admins or everyone for one; service members are never asked. Who is asked and has proven
none in this session gets 403 \`second_factor_enrolment_required\` for all but \`/auth/session\`, logout, \`/auth/reauthenticate\` and
\`/auth/second-factors\`. If \`GET /auth/second-factors\` says \`mailCodeRequired\`, ask for a code at
\`/auth/second-factors/mail-code\`, and send it as \`mailCode\` with the authenticator app or the passkey. \`amr\` in access tokens
(RFC 8176) says by what their user signed in: \`pwd\`, \`otp\` for a code, \`hwk\` or \`swk\` and \`user\` for a passkey, \`mfa\` for
two factors.

## Passwords

${MIN_LENGTH} to ${MAX_LENGTH} characters after NFC, without rules for their composition. A password that takes fewer than
${MIN_GUESSES.toLocaleString('en')} guesses by the estimate of zxcvbn, which knows the e-mail, the name and the company, is
refused with what makes it weak${config.breachedPasswordsUrl ? ', as is one that is known from a breach' : ''}. What begins with
\`${SERVICE_PREFIX}\` is refused, too: that is kept for servers.

## Servers

A server is a member with a password of its own (\`POST /auth/members\`), and signs in as people do, in token mode. Right passwords
are not counted, so that a fleet can start behind one address; wrong ones are counted as refused credentials. To replace a
password without a pause, ask for the next one with \`previousValidSeconds\` (\`POST /auth/members/{id}/password\`), give it to all
servers, and sign in again with it before the old one ends with its sessions, at \`previousExpiresAt\`.

## Limits

A network is an IPv4 address or an IPv6 /64. Beyond a limit the answer is 429 with \`Retry-After\`; limited routes tell in
\`RateLimit\` what is left.

| limit | at most | counts |
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
    names.map((name) => [
      limits[name].name,
      `${limits[name].max} in ${limits[name].windowSeconds} s`,
      COUNTED[name],
    ]),
  )
}

function accessTokens(config: Config): string {
  const issuer = issuerOf(config)
  const claims: Record<Exclude<keyof AccessClaims, 'nbf'>, string> = {
    iss: `the issuer: \`${issuer}\``,
    aud: `the audience: \`${ACCESS_AUDIENCE}\``,
    sub: 'the user',
    cid: 'the company',
    sid: 'the session',
    role: 'what the user is in the company',
    perms: 'the permissions of the user',
    amr: 'by what the user signed in (RFC 8176)',
    auth_time: 'when the user last proved who they are, in Unix seconds',
    jti: 'the token',
    iat: 'when it was issued, in Unix seconds',
    exp: 'when it expires, in Unix seconds',
  }
  return `## Access tokens

An access token is a JWT (RFC 9068), signed with ES256 by a key of \`/.well-known/jwks.json\`; its \`typ\` is \`at+jwt\`. Ids are
UUIDs. Tokens of sessions from before version 1.1 have neither \`amr\` nor \`auth_time\`; later versions may add claims.

| claim | says |
|---|---|
${toRows(Object.entries(claims))}

A service can verify it offline. It then learns of a logout or of another role when the token expires, after
${config.accessTokenTtlSeconds} s at most; \`GET /auth/session\` tells at once. In JavaScript, with the library jose:

\`\`\`js
import { createRemoteJWKSet, jwtVerify } from 'jose'

const issuer = '${issuer}'
const keys = createRemoteJWKSet(new URL(issuer + '/.well-known/jwks.json'))

// The claims of an access token. Throws for what is none, or has expired.
export async function verifyAccessToken(token) {
  const { payload } = await jwtVerify(token, keys, {
    issuer,
    audience: '${ACCESS_AUDIENCE}',
    algorithms: ['ES256'],
    typ: 'at+jwt',
    requiredClaims: ['sub', 'cid', 'sid', 'exp'],
  })
  return payload
}
\`\`\`
`
}

const SIGNATURES = `## Signed events

Events are signed as in Standard Webhooks, whose libraries work unchanged. The key of the HMAC is not the text of the signing
secret: it is the 32 bytes that the base64 behind \`whsec_\` decodes to. Sign the bytes of the body as they are sent. In
JavaScript:

\`\`\`js
import { createHmac } from 'node:crypto'

// The value of webhook-signature. The timestamp is in Unix seconds, as in webhook-timestamp.
export function sign(secret, { id, timestamp, body }) {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signed = createHmac('sha256', key).update(id + '.' + timestamp + '.' + body)
  return 'v1,' + signed.digest('base64')
}
\`\`\`
`

const RIGHTS = `## Roles and plans

As they are delivered; the answer to a sign-in has what holds at that moment. This service enforces
\`webhook-secret:manage\`, \`members:manage\`, \`audit:read\` and the feature \`event_ingest\`; the other permissions and
features are for the services beside it.

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

What is done in a company is kept as entries that nobody can change. \`outcome\` is \`done\` or \`refused\`, unless the table
names others. Acts of operators on the whole service are in the trail of no company.

| action | says |
|---|---|
${toRows(Object.entries(ACTIONS))}
`
