import { spawn } from 'node:child_process'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { findPlace } from '../../scripts/kit/places.ts'
import { deleteClient } from '../../src/operator/platform.ts'
import { changeUserRole } from '../../src/operator/users.ts'
import { openFolder } from '../support/cleanup.ts'
import { openDoor } from '../support/door.ts'
import { INHERITED } from '../support/environment.ts'
import { addClient, basic, type Client } from '../support/platform.ts'
import { startProgram } from '../support/program.ts'
import { openTestService, times } from '../support/test-service.ts'

/** Runs the programs in src/platform/README.md unchanged, as a reader would. */

const PROJECT = resolve(import.meta.dirname, '../..')
const readme = await readFile(join(PROJECT, 'src/platform/README.md'), 'utf8')
const { origin, lead } = await openDoor()
const service = await openTestService({ env: { PUBLIC_URL: origin } })
for (const { server } of service.apps) lead(server)
const folder = await openFolder()
await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
async function writeProgram(section: string, file: string): Promise<void> {
  const [, text = ''] = readme.split(`\n## ${section}\n`)
  const [, program = ''] = /^[^#]*?```js\n([\s\S]+?)```/.exec(text) ?? []
  await writeFile(join(folder, file), program)
}
await writeProgram('Introspection', 'service.mjs')
await writeProgram('Event feed', 'reader.mjs')
await writeProgram('Offline verification', 'verify.mjs')
const GATEHOUSE = service.platformAddresses[0]

/** Starts the service, and returns a function that sends it requests. */
async function start({ id, secret }: Client) {
  const { host, port } = await findPlace()
  const variables = { GATEHOUSE, CLIENT_ID: id, CLIENT_SECRET: secret, HOST: host, PORT: String(port) }
  const { child, ended } = startProgram(join(folder, 'service.mjs'), [], variables)
  onTestFinished(async () => {
    child.kill()
    await ended
  })
  const ask = async (token?: string) => {
    const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }) }
    const answer = await fetch(`http://${host}:${port}/assessments`, { headers })
    return [answer.status, answer.status === 200 ? await answer.json() : await answer.text()]
  }
  while (!(await ask().catch(() => null))) {
    if (child.exitCode !== null) throw new Error((await ended).stderr)
    await sleep(20)
  }
  return ask
}

test('the example service admits users with the permission during their session', async () => {
  const { context, clock } = service
  const client = await addClient(service)
  const ask = await start(client)
  const member = await service.addUser(await service.addCompany(), 'analyst')
  const { accessToken, refreshToken } = await service.loginAs(member)
  expect(await ask(accessToken)).toEqual([200, { of: member.companyId }])
  for (const token of [undefined, 'x', refreshToken]) expect(await ask(token)).toEqual([401, ''])
  await changeUserRole(context, member.companyId, member, 'viewer')
  expect(await ask(accessToken)).toEqual([403, ''])
  await service.call('/auth/logout', { token: accessToken })
  expect(await ask(accessToken)).toEqual([401, ''])
  // Without a response from gatehouse, the service admits nobody.
  await deleteClient(context, client.id)
  clock.advance(1)
  expect((await ask(accessToken))[0]).toBe(503)
})

test('the example reader misses no event, however often it is killed', async () => {
  const { id, secret } = await addClient(service, ['events:read'])
  // Instances read the clients once a second.
  service.clock.advance(2)
  const company = await service.addCompany()
  const signingSecret = await service.newSecret(company)
  let sent = 0
  async function send(): Promise<void> {
    const events = times(20, (n) => ({ id: `e-${sent + n}`, type: 'a.b', data: {} }))
    sent += events.length
    const { status } = await service.send(company.companyId, signingSecret, { events })
    expect(status).toBe(202)
  }
  /** IDs that the reader printed until it was killed, after `until` of them. */
  async function read(until: number): Promise<string[]> {
    const child = spawn(process.execPath, [join(folder, 'reader.mjs')], {
      env: { ...INHERITED, GATEHOUSE, CLIENT_ID: id, CLIENT_SECRET: secret },
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ids: string[] = []
    for await (const line of createInterface({ input: child.stdout })) {
      ids.push(JSON.parse(line).id)
      if (ids.length >= until) child.kill('SIGKILL')
    }
    return ids
  }
  const runs: string[][] = []
  for (const until of [1, 15, 40]) {
    await Promise.all([read(until).then((ids) => runs.push(ids)), send(), send()])
  }
  let cursor = await readFile(join(folder, 'cursor'), 'utf8').catch(() => '')
  const seen = new Set(runs.flat())
  /** New events appear only after all older transactions in any database of the cluster end. */
  const readOn = async () => {
    const { body } = await service.ask(`/events?limit=1000${cursor && `&after=${cursor}`}`, {
      method: 'GET',
      headers: { authorization: basic({ id, secret }) },
    })
    for (const event of body.events) seen.add(event.id)
    cursor = body.next ?? cursor
    return [...seen].sort()
  }
  await expect.poll(readOn).toEqual(times(sent, (n) => `e-${n}`).sort())
})

test('the example for offline verification accepts only access tokens', async () => {
  vi.stubEnv('ISSUER', `${origin}/api`)
  onTestFinished(() => void vi.unstubAllEnvs())
  const { verifyAccessToken } = await import(
    /* @vite-ignore */ pathToFileURL(join(folder, 'verify.mjs')).href
  )
  const { accessToken, refreshToken, user } = await service.loginAs(await service.addCompany())
  await expect(verifyAccessToken(accessToken)).resolves.toMatchObject({ sub: user.id })
  await expect(verifyAccessToken(refreshToken)).rejects.toThrow()
})
