import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { samplesOf } from '../../src/pages/docs/samples.ts'
import { EXAMPLES } from '../../src/pages/signed-in/example-programs.ts'
import { openFolder } from '../support/cleanup.ts'
import { openTestService } from '../support/test-service.ts'

/** Runs the programs of the developer page, the quickstart, and the API reference as a reader would. */

const service = await openTestService()
const folder = await openFolder()
// The service's clock stands still, so it is set to this machine's time.
service.clock.advance((Date.now() - service.clock.now()) / 1000)

async function runIn(command: string, variables: NodeJS.ProcessEnv): Promise<string> {
  const env = { ...process.env, ...variables, NODE_OPTIONS: '' }
  return (await promisify(execFile)('sh', ['-euc', command], { cwd: folder, env })).stdout
}

test.for(EXAMPLES)(
  'the example in $language sends one event, or explains why not',
  async ({ file, run, write }) => {
    const admin = await service.addCompany()
    const secret = await service.newSecret(admin)
    const url = `${service.addresses[0]}/api/events/ingest`
    await writeFile(join(folder, file), write({ companyId: admin.companyId, url }))
    const send = (SIGNING_SECRET: string) => runIn(run, { SIGNING_SECRET })
    const sent = await send(secret)
    for (const part of ['{"accepted":1,"duplicates":0}', '202']) expect(sent).toContain(part)
    const refused = await send(`whsec_${Buffer.alloc(32).toString('base64')}`)
    for (const part of ['invalid_signature', '401']) expect(refused).toContain(part)
    for (const one of ['', secret.slice('whsec_'.length)])
      await expect(send(one)).rejects.toThrow('Set SIGNING_SECRET to your secret, whsec_…')
  },
)

const PROGRAMS = [
  ['curl', 'sh', 'program.sh', 'sh program.sh'],
  ['Node', 'js', 'program.mjs', 'node program.mjs'],
  ['Python', 'py', 'program.py', 'python3 program.py'],
  ['Go', 'go', 'program.go', 'go run program.go'],
] as const

const quickstart = await readFile(resolve(import.meta.dirname, '../../src/pages/docs/quickstart.md'), 'utf8')

test.for(PROGRAMS)('the quickstart in %s shows the session', async ([, fence, file, run]) => {
  const admin = await service.addCompany()
  const { email: EMAIL, password: PASSWORD } = admin
  const { companyHandle: COMPANY } = (await service.loginAs(admin)).accessContext
  const blocks = [...quickstart.matchAll(/^```(\w+)\n([\s\S]+?)^```/gm)]
  // The other block of the shell has values to fill in.
  const [, , code = ''] = blocks.find(([, name, text]) => name === fence && !text?.includes('…')) ?? []
  await writeFile(join(folder, file), code.replaceAll('https://auth.example.com', service.addresses[0] ?? ''))
  expect(await runIn(run, { COMPANY, EMAIL, PASSWORD })).toContain(EMAIL)
})

test.for(PROGRAMS)('the API reference in %s shows working requests', async ([language, , file, run]) => {
  const { accessToken: ACCESS_TOKEN } = await service.loginAs(await service.addCompany())
  const { body } = await service.call('/openapi.json', { method: 'GET' })
  const api = { ...body, servers: [{ url: `${service.addresses[0]}/api` }] }
  for (const [method, path] of [
    ['patch', '/auth/account'],
    ['get', '/auth/session'],
  ] as const) {
    const samples = samplesOf(api, path, method, body.paths[path][method])
    await writeFile(join(folder, file), samples.find((one) => one.language === language)?.source ?? '')
    expect(await runIn(run, { ACCESS_TOKEN })).toContain('Ada Lovelace')
  }
})
