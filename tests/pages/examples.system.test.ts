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

/** What each language needs on the machine. */
const NEEDS: Record<string, string[]> = {
  curl: ['bash', 'curl', 'openssl'],
  Node: ['node'],
  Python: ['python3'],
  Go: ['go'],
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
  expect(EXAMPLES.map(({ language }) => language)).toEqual(Object.keys(NEEDS))
})

for (const { language, file, run, write } of EXAMPLES) {
  test.runIf(NEEDS[language]?.every(isThere))(
    `in ${language} it sends one event, or says why not`,
    async () => {
      const admin = await service.addCompany()
      const secret = await service.newSecret(admin)
      const url = `${service.addresses[0]}/api/events/ingest`
      await writeFile(join(folder, file), write({ companyId: admin.companyId, url }))
      // The service's clock stands still, so it is put to that of this machine.
      service.clock.advance((Date.now() - service.clock.now()) / 1000)
      const send = async (SIGNING_SECRET: string) => {
        const env = { ...process.env, SIGNING_SECRET, NODE_OPTIONS: '' }
        return (await promisify(execFile)('sh', ['-c', run], { cwd: folder, env })).stdout
      }
      const sent = await send(secret)
      for (const part of ['{"accepted":1,"duplicates":0}', '202']) expect(sent).toContain(part)
      const refused = await send(`whsec_${Buffer.alloc(32).toString('base64')}`)
      for (const part of ['invalid_signature', '401']) expect(refused).toContain(part)
      for (const one of ['', secret.slice('whsec_'.length)])
        await expect(send(one)).rejects.toThrow('Set SIGNING_SECRET to your secret, whsec_…')
    },
  )
}
