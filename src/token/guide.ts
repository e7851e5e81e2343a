import { type AccessClaims, issuerOf } from './claims.ts'
import { ACCESS_AUDIENCE } from './keys.ts'

/** A chapter of the OpenAPI document, for services that verify access tokens offline. */

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

export function tokenGuide(config: { publicUrl: string; accessTokenTtlSeconds: number }): string {
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
