import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { faultsOf, KEY, PRODUCTION } from './production.ts'

/** Secrets in files, as systemd, Docker, and Kubernetes provide them (ASVS 13.3.1). */

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-config-'))
afterAll(() => rm(folder, { recursive: true }))

async function fileOf(content: string): Promise<string> {
  const file = join(folder, crypto.randomUUID())
  await writeFile(file, content)
  return file
}

describe.for([
  ['DATABASE_URL', PRODUCTION.DATABASE_URL, (config: Config) => config.databaseUrl],
  ['MASTER_KEYS', PRODUCTION.MASTER_KEYS, (config: Config) => config.masterKeys],
  ['SMTP_URL', PRODUCTION.SMTP_URL, (config: Config) => config.mail.smtpUrl],
] as const)('%s_FILE', ([name, secret, read]) => {
  const withFile = (file: string) => ({ ...PRODUCTION, [name]: '', [`${name}_FILE`]: file })

  test('names the file that has the secret, with or without a line break at its end', async () => {
    const expected = read(loadConfig(PRODUCTION))
    for (const content of [secret, `${secret}\n`, `\uFEFF${secret}\r\n`])
      expect(read(loadConfig(withFile(await fileOf(content))))).toEqual(expected)
  })

  test('beside the variable itself is a fault', async () => {
    const env = { ...withFile(await fileOf(secret)), [name]: secret }
    expect(faultsOf(env)).toEqual([`  - ${name}: must not be set together with ${name}_FILE`])
  })

  test('without a secret in the file is one fault', async () => {
    expect(faultsOf(withFile(join(folder, 'nowhere')))).toEqual([
      `  - ${name}: must be in a readable file at ${name}_FILE (ENOENT)`,
    ])
    expect(faultsOf(withFile(folder))).toEqual([expect.stringContaining(`  - ${name}: `)])
    expect(faultsOf(withFile(await fileOf('\n')))).toEqual([
      `  - ${name}: must not be empty in the file that ${name}_FILE names`,
    ])
  })

  test('with anything else in the file is a fault that does not repeat it', async () => {
    const [fault, ...others] = faultsOf(withFile(await fileOf(`c4n4ry ${KEY}`)))
    expect([fault, others]).toEqual([expect.stringContaining(`  - ${name}: must be `), []])
    expect(fault).not.toMatch(/c4n4ry/)
    expect(fault).not.toContain(KEY)
  })
})

type Config = ReturnType<typeof loadConfig>
