import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Config, loadConfig } from '../../src/config/config.ts'
import { readEnvFile } from '../../src/config/files.ts'
import { openFolder } from '../support/cleanup.ts'
import { faultsOf, KEY, PRODUCTION } from './production.ts'

/** Settings in .env, and secrets in files, as systemd, Docker, and Kubernetes provide them (ASVS 13.3.1). */

const folder = await openFolder()

async function fileOf(content: string | Buffer): Promise<string> {
  const file = join(folder, crypto.randomUUID())
  await writeFile(file, content)
  return file
}

const withFile = (name: string, file: string) => ({ ...PRODUCTION, [name]: '', [`${name}_FILE`]: file })

test.for([
  ['DATABASE_URL', (config: Config) => config.databaseUrl],
  ['MASTER_KEYS', (config: Config) => config.masterKeys],
  ['SMTP_URL', (config: Config) => config.mail.smtpUrl],
] as const)('%s can be in a file, with any final line break', async ([name, read]) => {
  const secret = PRODUCTION[name]
  const expected = read(loadConfig(PRODUCTION))
  for (const content of [secret, `${secret}\n`, `\uFEFF${secret}\r\n`])
    expect(read(loadConfig(withFile(name, await fileOf(content))))).toEqual(expected)
  const env = { ...withFile(name, await fileOf(secret)), [name]: secret }
  expect(faultsOf(env)).toEqual([`  - ${name}: must not be set together with ${name}_FILE`])
})

test('an unusable secret file is reported once, without its contents', async () => {
  const faultsIn = (file: string) => faultsOf(withFile('MASTER_KEYS', file))
  expect(faultsIn(join(folder, 'nowhere'))).toEqual([
    '  - MASTER_KEYS: must be in the file that MASTER_KEYS_FILE names, which cannot be read (ENOENT)',
  ])
  expect(faultsIn(folder)).toEqual([expect.stringContaining('  - MASTER_KEYS: ')])
  expect(faultsIn(await fileOf('\n'))).toEqual([
    '  - MASTER_KEYS: must not be empty in the file that MASTER_KEYS_FILE names',
  ])
  const [fault, ...others] = faultsIn(await fileOf(`c4n4ry ${KEY}`))
  expect([fault, others]).toEqual([expect.stringContaining('  - MASTER_KEYS: must be '), []])
  expect(fault).not.toMatch(/c4n4ry/)
  expect(fault).not.toContain(KEY)
})

const readText = async (content: string | Buffer) => readEnvFile(await fileOf(content))

test('.env can have a byte order mark and any line breaks', async () => {
  const variables = { NODE_ENV: 'production', PORT: '4000' }
  for (const text of ['NODE_ENV=production\nPORT=4000\n', 'NODE_ENV=production\r\n\r\nPORT=4000'])
    for (const mark of ['', '\uFEFF']) expect(await readText(mark + text)).toEqual({ variables, faults: [] })
})

test('.env in UTF-16 is reported', async () => {
  const text = 'NODE_ENV=production\nPORT=4000\n'
  const littleEndian = Buffer.from(`\uFEFF${text}`, 'utf16le')
  for (const bytes of [littleEndian, Buffer.from(littleEndian).swap16(), Buffer.from(text, 'utf16le')])
    expect(await readText(bytes)).toEqual({ variables: {}, faults: ['.env: must be in UTF-8'] })
})

test('a line of .env that Node ignores is reported', async () => {
  const text = 'HOST=::\nPORT: 4000\n\nMASTER_KEYS c4n4ry\nCELL := eu1\n=c4n4ry\nWORKERS=2'
  const { faults } = await readText(text)
  const faultOf = (line: number) => `.env, line ${line}: must be NAME=value, such as PORT=3000`
  expect(faults).toEqual([2, 4, 5, 6].map(faultOf))
})

test('.env can have comments, exports, and multi-line quoted values', async () => {
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
