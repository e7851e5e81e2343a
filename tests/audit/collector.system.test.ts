import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'
import { openTestService, times } from '../support/test-service.ts'

/** The guide's script for collectors, as copied. */

const GUIDE = resolve(import.meta.dirname, '../../src/pages/docs/audit.md')
const service = await openTestService({ instances: 2 })
const run = promisify(execFile)

test('a collector of ten lines has each entry once, and continues after a crash', async () => {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  const json = { name: 'SIEM', role: 'auditor' }
  const { body } = await service.call('/auth/members', { token, json })
  const [folder, guide] = [await openFolder(), await readFile(GUIDE, 'utf8')]
  const [, script = ''] = /^```sh\n([\s\S]+?)^```/m.exec(guide) ?? []
  const local = script
    .replace('https://auth.example.com', service.addresses[1] ?? '')
    .replace('/var/lib/audit', folder)
  await writeFile(join(folder, 'collect'), local)
  await writeFile(join(folder, 'header'), `Authorization: Bearer ${body.password}`)
  const collect = () => run('sh', [join(folder, 'collect')])
  const idsOf = async () => {
    const lines = (await readFile(join(folder, 'audit.ndjson'), 'utf8')).trim().split('\n')
    return lines.map((line) => JSON.parse(line).id as string)
  }
  const rename = (n: number) =>
    service.call('/auth/account', { method: 'PATCH', token, json: { name: `Ada ${n}` } })
  const stored = async () => {
    const rows = service.db
      .selectFrom('audit_events')
      .select('audit_id')
      .where('company_id', '=', admin.companyId)
    return (await rows.execute()).map((row) => row.audit_id).sort()
  }
  const collectAll = async () => {
    const all = await stored()
    // Transactions of other tests can delay the feed.
    do await collect()
    while (new Set(await idsOf()).size < all.length)
    return all
  }
  await Promise.all(times(5, rename))
  const first = await collectAll()
  expect((await idsOf()).sort()).toEqual(first)
  await Promise.all(times(5, rename))
  const cursor = await readFile(join(folder, 'cursor'))
  const all = await collectAll()
  expect((await idsOf()).sort()).toEqual(all)
  // As if it had stored the entries, but not the cursor.
  await writeFile(join(folder, 'cursor'), cursor)
  await collect()
  expect([...new Set(await idsOf())].sort()).toEqual(all)
})
