import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { changeUserRole } from '../../src/operator/users.ts'
import { INHERITED } from '../support/environment.ts'
import { findPlace } from '../support/places.ts'
import { addClient } from '../support/platform.ts'
import { openTestService } from '../support/test-service.ts'

/** The service in the README, as it stands there, run as a reader would. */

const PROJECT = resolve(import.meta.dirname, '../..')
const readme = await readFile(join(PROJECT, 'README.md'), 'utf8')
const [, indented = ''] =
  /\n((?: {4}.*\n|\n)*? {4}import fastify from 'fastify'\n(?: {4}.*\n|\n)+)/.exec(readme) ?? []

const service = await openTestService()
const folder = await mkdtemp(join(tmpdir(), 'gatehouse-example-'))
afterAll(() => rm(folder, { recursive: true }))
await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
await writeFile(join(folder, 'service.mjs'), indented.replace(/^ {4}/gm, ''))

/** Starts the service, and returns what asks it. */
async function start(client: { id: string; secret: string }) {
  const { port } = await findPlace()
  const child = spawn(process.execPath, [join(folder, 'service.mjs')], {
    env: {
      ...INHERITED,
      GATEHOUSE: service.platformAddresses[0],
      CLIENT_ID: client.id,
      CLIENT_SECRET: client.secret,
      PORT: String(port),
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  onTestFinished(async () => {
    child.kill()
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const ask = async (token?: string) => {
    const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }) }
    const answer = await fetch(`http://localhost:${port}/assessments`, { headers })
    return [answer.status, answer.status === 200 ? await answer.json() : await answer.text()]
  }
  while (!(await ask().catch(() => null))) {
    if (child.exitCode !== null) throw new Error('the example ended')
    await sleep(20)
  }
  return ask
}

test('lets in who may, for as long as their session lives', async () => {
  const ask = await start(await addClient(service))
  const member = await service.addUser(await service.addCompany(), 'analyst')
  const { accessToken, refreshToken } = await service.loginAs(member)
  expect(await ask(accessToken)).toEqual([200, { of: member.companyId }])
  for (const token of [undefined, 'x', refreshToken]) expect(await ask(token)).toEqual([401, ''])
  await changeUserRole(service.context, member.companyId, member, 'viewer', service.clock.now())
  expect(await ask(accessToken)).toEqual([403, ''])
  await service.call('/auth/logout', { token: accessToken })
  expect(await ask(accessToken)).toEqual([401, ''])
})

test('lets nobody in while it cannot ask', async () => {
  const ask = await start({ ...(await addClient(service)), secret: 'x' })
  const { accessToken } = await service.loginAs(await service.addCompany())
  const [status] = await ask(accessToken)
  expect(status).toBe(503)
})
