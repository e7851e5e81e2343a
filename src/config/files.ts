import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

/** Configuration that is in files: .env, and secrets, each in its own. */

interface EnvFile {
  variables: NodeJS.Dict<string>
  faults: string[]
}

export function readEnvFile(file: string): EnvFile {
  if (!existsSync(file)) return { variables: {}, faults: [] }
  const bytes = readFileSync(file)
  // Names in UTF-16 have such bytes.
  if (bytes.includes(0)) return { variables: {}, faults: ['.env: must be in UTF-8'] }
  const text = bytes.toString('utf8').replace(/^\uFEFF/, '')
  return { variables: parseEnv(text), faults: findIgnoredLines(text) }
}

/** Node says nothing of lines such as `PORT: 4000`. */
function findIgnoredLines(text: string): string[] {
  // Quoted values can have several lines.
  const lines = text
    .replace(/=[ \t]*(["'`])[\s\S]*?\1.*/g, (value) => `=${value.replace(/.+/g, '')}`)
    .split('\n')
  return lines.flatMap((line, index) =>
    /^\s*(?:$|#|(?:export\s+)?[^\s=:]+\s*=)/.test(line)
      ? []
      : [`.env, line ${index + 1}: must be NAME=value`],
  )
}

/** `NAME_FILE` has the path of the file whose content is `NAME`. */
const SECRETS = ['DATABASE_URL', 'MASTER_KEYS', 'SMTP_URL']

interface Secrets {
  secrets: Record<string, string>
  /** Each begins with the name of the secret. */
  faults: string[]
}

export function readSecretFiles(values: Record<string, unknown>): Secrets {
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
      faults.push(`${name}: must be in a readable file at ${name}_FILE (${reason})`)
    }
  }
  return { secrets, faults }
}
