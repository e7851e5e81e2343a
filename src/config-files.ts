import { readFileSync } from 'node:fs'

/** Configuration that is in files: secrets, each in its own. */

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
