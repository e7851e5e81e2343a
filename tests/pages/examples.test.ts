import { execFile, execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { EXAMPLES } from '../../src/pages/signed-in/example-programs.ts'
import { openTestService } from '../support/test-service.ts'

/** The programs that the developer page shows send an event as they are. */

const service = await openTestService()
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-examples-'))
afterAll(() => rm(folder, { recursive: true }))

const RUN: Record<
  string,
  { program: string; needs?: string; file: string; args: (file: string) => string[] }
> = {
  curl: { program: 'bash', needs: 'openssl', file: 'send.sh', args: (file) => [file] },
  Node: { program: process.execPath, file: 'send.mjs', args: (file) => [file] },
  Python: { program: 'python3', file: 'send.py', args: (file) => [file] },
  Go: { program: 'go', file: 'send.go', args: (file) => ['run', file] },
}

function isThere(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v "$0"`, program])
    return true
  } catch {
    return false
  }
}

test('there is one in each language', () => {
  expect(EXAMPLES.map(({ language }) => language)).toEqual(Object.keys(RUN))
})

for (const { language, write } of EXAMPLES) {
  const { program = '', needs = program, file = '', args } = RUN[language] ?? { args: () => [] }
  test.runIf(isThere(program) && isThere(needs))(`in ${language} it sends one event`, async () => {
    const admin = await service.addCompany()
    const secret = await service.newSecret(admin)
    const path = join(folder, file)
    const url = `${service.addresses[0]}/api/events/ingest`
    await writeFile(path, write({ companyId: admin.companyId, url }))
    // The service's clock stands still, so it is put to that of this machine.
    service.clock.advance((Date.now() - service.clock.now()) / 1000)
    const env = { ...process.env, SIGNING_SECRET: secret, NODE_OPTIONS: '' }
    const { stdout } = await promisify(execFile)(program, args(path), { env })
    expect(stdout).toContain('{"accepted":1,"duplicates":0}')
  })
}
