import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

/** Reads variables from the environment, from .env, and from files for secrets, and finds misspelled names. */

export function readEnvFile(file: string): { variables: NodeJS.Dict<string>; faults: string[] } {
  if (!existsSync(file)) return { variables: {}, faults: [] }
  const bytes = readFileSync(file)
  // UTF-16 has NUL bytes.
  if (bytes.includes(0)) return { variables: {}, faults: ['.env: must be in UTF-8'] }
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  return { variables: parseEnv(text), faults: findIgnoredLines(text) }
}

/** Node ignores lines such as `PORT: 4000` silently. */
function findIgnoredLines(text: string): string[] {
  const lines = text
    .replace(/=[ \t]*(["'`])[\s\S]*?\1.*/g, (value) => `=${value.replace(/.+/g, '')}`)
    .split('\n')
  return lines.flatMap((line, index) =>
    /^\s*(?:$|#|(?:export\s+)?[^\s=:]+\s*=)/.test(line)
      ? []
      : [`.env, line ${index + 1}: must be NAME=value, such as PORT=3000`],
  )
}

const SECRETS = ['DATABASE_URL', 'MASTER_KEYS', 'SMTP_URL']

export function readSecretFiles(values: Record<string, unknown>) {
  const secrets: Record<string, string> = {}
  const faults: string[] = []
  for (const name of SECRETS) {
    const file = values[`${name}_FILE`]
    if (typeof file !== 'string') continue
    if (values[name] !== undefined) {
      faults.push(`${name}: must not be set together with ${name}_FILE`)
      continue
    }
    try {
      // Editors end a file with a line break.
      const secret = readFileSync(file, 'utf8').trim()
      if (secret === '') faults.push(`${name}: must not be empty in the file that ${name}_FILE names`)
      else secrets[name] = secret
    } catch (error) {
      const reason = error instanceof Error && 'code' in error ? error.code : error
      faults.push(`${name}: must be in the file that ${name}_FILE names, which cannot be read (${reason})`)
    }
  }
  return { secrets, faults }
}

/** Kubernetes and Docker set such variables for services: OPA_PORT=tcp://10.96.0.7:8181. */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\//

export function isServiceLink(name: string, value = ''): boolean {
  return name.endsWith('_PORT') && SERVICE_LINK.test(value)
}

export function mergeVariables(below: NodeJS.Dict<string>, env: NodeJS.Dict<string>): NodeJS.Dict<string> {
  const own = Object.entries(env).filter(([name, value]) => !(name in below && isServiceLink(name, value)))
  return { ...below, ...Object.fromEntries(own) }
}

/** Too many names are one letter away from shorter ones, such as PORTS from PORT. */
const MIN_LENGTH = 8

/** Names that differ from a known one in one letter or in case. Other unknown names belong to other programs. */
export function misspelledNames(env: Record<string, string | undefined>, known: readonly string[]): string[] {
  return Object.entries(env).flatMap(([name, value = '']) => {
    if (name.length < MIN_LENGTH || known.includes(name) || SERVICE_LINK.test(value)) return []
    const meant = known.filter((one) => name.toUpperCase() === one || isOneLetterAway(name, one))
    return meant.length > 0 ? [`${name}: is unknown. Did you mean ${meant.join(' or ')}?`] : []
  })
}

function isOneLetterAway(name: string, known: string): boolean {
  let same = 0
  while (same < name.length && name[same] === known[same]) same += 1
  const [rest, knownRest] = [name.slice(same), known.slice(same)]
  const isSwapped = rest[0] === knownRest[1] && rest[1] === knownRest[0]
  return (
    rest.slice(1) === knownRest ||
    rest === knownRest.slice(1) ||
    rest.slice(1) === knownRest.slice(1) ||
    (isSwapped && rest.slice(2) === knownRest.slice(2))
  )
}
