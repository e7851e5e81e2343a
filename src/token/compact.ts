/**
 * The header part of a compact token, or null for what is not three parts, each the canonical base64url of
 * its bytes (RFC 7515, section 7.1; RFC 4648, section 3.5). Decoders pass over stray bits, so without this
 * one token could be spelled in several ways.
 */
export function headerPartOf(token: string): string | null {
  const [header = '', payload = '', signature = '', ...more] = token.split('.')
  return more.length === 0 && [header, payload, signature].every(isCanonical) ? header : null
}

function isCanonical(part: string): boolean {
  return part !== '' && Buffer.from(part, 'base64url').toString('base64url') === part
}
