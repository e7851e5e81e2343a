import { ACTIONS } from './audit/actions.ts'
import { PLAN_FEATURES, ROLE_PERMISSIONS } from './company/account.ts'
import { ACCESS_AUDIENCE, type AccessClaims, issuerOf } from './token/claims.ts'

/** The chapters of the OpenAPI document that say what schemas cannot: for those who write clients. */

export function chaptersOf(config: { publicUrl: string; accessTokenTtlSeconds: number }): string[] {
  return [tokenChapter(config), SIGNATURES, RIGHTS, TRAIL]
}

const CLAIMS: Record<Exclude<keyof AccessClaims, 'nbf'>, string> = {
  iss: 'the issuer',
  aud: 'the audience',
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

function tokenChapter(config: { publicUrl: string; accessTokenTtlSeconds: number }): string {
  const issuer = issuerOf(config)
  const values: Partial<Record<string, string>> = { iss: issuer, aud: ACCESS_AUDIENCE }
  const rows = Object.entries(CLAIMS).map(
    ([claim, meaning]) =>
      `| \`${claim}\` | ${meaning}${values[claim] === undefined ? '' : `: \`${values[claim]}\``} |`,
  )
  return `## Access tokens

An access token is a JWT (RFC 9068), signed with ES256 by a key of \`/.well-known/jwks.json\`; its \`typ\` is \`at+jwt\`. Ids are
UUIDs. Tokens of sessions from before version 1.1 have neither \`amr\` nor \`auth_time\`; later versions may add claims.

| claim | says |
|---|---|
${rows.join('\n')}

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
${toRows(ROLE_PERMISSIONS)}

| plan | features |
|---|---|
${toRows(PLAN_FEATURES)}
`

function toRows(lists: Record<string, readonly string[]>): string {
  return Object.entries(lists)
    .map(([name, words]) => `| \`${name}\` | ${words.map((word) => `\`${word}\``).join(' ')} |`)
    .join('\n')
}

const TRAIL = `## The audit trail

What is done in a company is kept as entries that nobody can change. \`outcome\` is \`done\` or \`refused\`, unless the table
names others. Acts of operators on the whole service are in the trail of no company.

| action | says |
|---|---|
${Object.entries(ACTIONS)
  .map(([action, says]) => `| \`${action}\` | ${says} |`)
  .join('\n')}
`
