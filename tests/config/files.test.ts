import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { type Config, loadConfig } from '../../src/config.ts'
import { readEnvFile } from '../../src/config-files.ts'
import { faultsOf, KEY, PRODUCTION } from './production.ts'

/** The file .env, and secrets in files of their own, as systemd, Docker, and Kubernetes provide them (ASVS 13.3.1). */

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-config-'))
afterAll(() => rm(folder, { recursive: true }))

async function fileOf(content: string | Buffer): Promise<string> {
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

  test('a secret can be in a file, with or without a final line break', async () => {
    const expected = read(loadConfig(PRODUCTION))
    for (const content of [secret, `${secret}\n`, `\uFEFF${secret}\r\n`])
      expect(read(loadConfig(withFile(await fileOf(content))))).toEqual(expected)
  })

  test('a secret both in a file and a variable is a fault', async () => {
    const env = { ...withFile(await fileOf(secret)), [name]: secret }
    expect(faultsOf(env)).toEqual([`  - ${name}: must not be set together with ${name}_FILE`])
  })

  test('a missing or empty secret file is one fault', async () => {
    expect(faultsOf(withFile(join(folder, 'nowhere')))).toEqual([
      `  - ${name}: must be in a readable file at ${name}_FILE (ENOENT)`,
    ])
    expect(faultsOf(withFile(folder))).toEqual([expect.stringContaining(`  - ${name}: `)])
    expect(faultsOf(withFile(await fileOf('\n')))).toEqual([
      `  - ${name}: must not be empty in the file that ${name}_FILE names`,
    ])
  })

  test('a fault does not contain the text of a secret file', async () => {
    const [fault, ...others] = faultsOf(withFile(await fileOf(`c4n4ry ${KEY}`)))
    expect([fault, others]).toEqual([expect.stringContaining(`  - ${name}: must be `), []])
    expect(fault).not.toMatch(/c4n4ry/)
    expect(fault).not.toContain(KEY)
  })
})

describe('.env', () => {
  const readText = async (content: string | Buffer) => readEnvFile(await fileOf(content))

  test('.env can have a byte order mark and any line breaks', async () => {
    const variables = { NODE_ENV: 'production', PORT: '4000' }
    for (const text of ['NODE_ENV=production\nPORT=4000\n', 'NODE_ENV=production\r\n\r\nPORT=4000'])
      for (const mark of ['', '\uFEFF'])
        expect(await readText(mark + text)).toEqual({ variables, faults: [] })
  })

  test('.env in UTF-16 is a fault', async () => {
    const text = 'NODE_ENV=production\nPORT=4000\n'
    const littleEndian = Buffer.from(`\uFEFF${text}`, 'utf16le')
    for (const bytes of [littleEndian, Buffer.from(littleEndian).swap16(), Buffer.from(text, 'utf16le')])
      expect(await readText(bytes)).toEqual({ variables: {}, faults: ['.env: must be in UTF-8'] })
  })

  test('a line of .env that Node ignores is a fault', async () => {
    const text = 'HOST=::\nPORT: 4000\n\nMASTER_KEYS c4n4ry\nCELL := eu1\n=c4n4ry\nWORKERS=2'
    const { variables, faults } = await readText(text)
    expect(variables).toMatchObject({ HOST: '::', WORKERS: '2' })
    expect(faults).toEqual([2, 4, 5, 6].map((line) => `.env, line ${line}: must be NAME=value`))
  })

  test('.env can have comments, exports, and quoted values of several lines', async () => {
    const text = [
      '# PORT: 4000, and a "quote',
      '  export HOST = "::" # a comment: of ours',
      'PAGES_URL=',
      `MAIL_FROM='Acme: it "is"\nus' <x>`,
      'CELL=`a\nPORT: 1`',
      "SMTP_NAME=it's",
      '\t',
    ]
    const { variables, faults } = await readText(text.join('\n'))
    expect([faults, variables['CELL'], variables['HOST']]).toEqual([[], 'a\nPORT: 1', '::'])
  })

  test('faults of .env are reported with all others', () => {
    const faults = ['.env: must be in UTF-8']
    expect(() => loadConfig({ PORT: 'x' }, [], faults)).toThrow(/\.env: must .*\n.* PORT: /)
  })
})
