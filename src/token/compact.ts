/**
 * The header part of a compact token; null unless the token has three parts, each the canonical base64url of
 * its bytes (RFC 7515, section 7.1; RFC 4648, section 3.5). Decoders ignore stray bits, so without this check
 * one token would have several spellings.
 */
export function headerPartOf(token: string): string | null {
  const [header = '', payload = '', signature = '', ...more] = token.split('.')
  return more.length === 0 && [header, payload, signature].every(isCanonical) ? header : null
}

function isCanonical(part: string): boolean {
  return part !== '' && Buffer.from(part, 'base64url').toString('base64url') === part
}
