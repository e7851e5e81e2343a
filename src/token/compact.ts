/** Null unless each part is canonical base64url (RFC 4648, 3.5): else one token has several spellings. */
export function headerPartOf(token: string): string | null {
  const [header = '', payload = '', signature = '', ...more] = token.split('.')
  return more.length === 0 && [header, payload, signature].every(isCanonical) ? header : null
}

function isCanonical(part: string): boolean {
  return part !== '' && Buffer.from(part, 'base64url').toString('base64url') === part
}
