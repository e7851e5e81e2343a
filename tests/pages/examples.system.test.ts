import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { EXAMPLES } from '../../src/pages/signed-in/example-programs.ts'
import { openFolder } from '../support/cleanup.ts'
import { openTestService } from '../support/test-service.ts'

/** Runs the developer page's programs unchanged. */

const service = await openTestService()
const folder = await openFolder()

test.for(EXAMPLES)(
  'the example in $language sends one event, or explains why not',
  async ({ file, run, write }) => {
    const admin = await service.addCompany()
    const secret = await service.newSecret(admin)
    const url = `${service.addresses[0]}/api/events/ingest`
    await writeFile(join(folder, file), write({ companyId: admin.companyId, url }))
    // The service's clock stands still, so it is set to this machine's time.
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
