/** A browser and its system; null for other programs. */
export function browserNameOf(userAgent: string): string | null {
  const [, browser] = /(Edg|OPR|Firefox|Chrome|Safari)\w*\//.exec(userAgent) ?? []
  const [, system] = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(userAgent) ?? []
  return browser && system ? `${BROWSERS[browser] ?? browser} on ${system}` : null
}

const BROWSERS: Record<string, string> = { Edg: 'Edge', OPR: 'Opera' }
