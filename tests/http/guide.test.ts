import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'
import { openDoor } from '../support/door.ts'
import { forge, openForge } from '../support/forge.ts'
import { openTestService } from '../support/test-service.ts'

/** Runs the code of the OpenAPI document as a reader would: copied, in a project that has its libraries. */

const { origin, lead } = await openDoor()
const service = await openTestService({ env: { PUBLIC_URL: origin } })
for (const { server } of service.apps) lead(server)
const { description } = (await service.call('/openapi.json', { method: 'GET' })).body.info
const chapterOf = (title: string): string => description.split(`## ${title}\n`)[1]?.split('\n## ', 1)[0] ?? ''

const folder = await openFolder()
await symlink(resolve(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))

async function run(title: string) {
  const [, code = ''] = /```js\n([\s\S]+?)```/.exec(chapterOf(title)) ?? []
  const file = join(folder, `${title.replaceAll(' ', '-')}.mjs`)
  await writeFile(file, code)
  return await import(/* @vite-ignore */ pathToFileURL(file).href)
}

const admin = await service.addCompany()

test('the code for access tokens verifies one offline, with all listed claims (RFC 9068, section 4)', async () => {
  const { verifyAccessToken } = await run('Access tokens')
  const { accessToken, session, user } = await service.loginAs(admin)
  const claims = await verifyAccessToken(accessToken)
  expect(claims).toMatchObject({
    sub: user.id,
    cid: admin.companyId,
    sid: session.id,
    role: 'admin',
    perms: expect.arrayContaining(['members:manage']),
  })
  const chapter = chapterOf('Access tokens')
  const listed = [...chapter.matchAll(/^\| `(\w+)` \|/gm)].map(([, claim]) => claim)
  expect(listed.toSorted()).toEqual(Object.keys(claims).sort())
  expect(chapter).toContain(`| issuer: \`${claims.iss}\``)
  expect(chapter).toContain(`| audience: \`${claims.aud}\``)
})

test('the code for access tokens refuses all other tokens', async () => {
  const { verifyAccessToken } = await run('Access tokens')
  const { access, refreshToken } = await openForge(service, admin)
  const { header, claims } = access
  await expect(verifyAccessToken(forge(access))).resolves.toEqual(claims)
  const { sid: _sid, ...withoutSession } = claims
  for (const token of [
    refreshToken,
    forge(access, { payload: { ...claims, iss: 'https://auth.example.com/api' } }),
    forge(access, { payload: { ...claims, aud: 'gatehouse/refresh' } }),
    forge(access, { payload: { ...claims, exp: Math.floor(Date.now() / 1000) - 1 } }),
    forge(access, { payload: withoutSession }),
    forge(access, { header: { ...header, typ: 'rt+jwt' } }),
    forge(access, { header: { ...header, alg: 'none' } }),
    forge(access, { sign: () => Buffer.alloc(64) }),
  ])
    await expect(verifyAccessToken(token)).rejects.toThrow()
})

test('the code for signed events creates the signature in README.md', async () => {
  const { sign } = await run('Signed events')
  const readme = await readFile(resolve(import.meta.dirname, '../../README.md'), 'utf8')
  const shown = (name: string) => new RegExp(`^${name} {2,}(.+)$`, 'm').exec(readme)?.[1] ?? ''
  const message = {
    id: shown('webhook-id'),
    timestamp: shown('webhook-timestamp'),
    body: shown('body'),
  }
  const signature = sign(shown('secret'), message)
  expect(signature).toMatch(/^v1,.{44}$/)
  expect(shown('webhook-signature')).toBe(signature)
})

test('the code for signed events creates valid signatures', async () => {
  const { sign } = await run('Signed events')
  const secret = await service.newSecret(admin)
  const body = '{"type":"a","data":{"name":"Zoë"}}'
  const timestamp = Math.floor(service.clock.now() / 1000)
  const statusOf = async (id: string) => {
    const headers = { 'webhook-id': 'one', 'webhook-signature': sign(secret, { id, timestamp, body }) }
    return (await service.send(admin.companyId, secret, body, { headers })).status
  }
  expect([await statusOf('one'), await statusOf('two')]).toEqual([202, 401])
})
