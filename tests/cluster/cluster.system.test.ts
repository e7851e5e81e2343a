import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { issueCertificate } from '../../scripts/cluster/certificates.ts'
import { nameOf, PORTS, postgresOf } from '../../scripts/cluster/machine.ts'
import { addressOf, instanceAddress, MACHINES, MACHINES_NETWORK } from '../../scripts/cluster/network.ts'
import { CLUSTER_FAULTS } from '../../scripts/fault-test/faults/cluster-list.ts'
import { choose } from '../../scripts/fault-test/faults/fault.ts'
import { toText } from '../../scripts/fault-test/run/report.ts'
import { runFaults } from '../../scripts/fault-test/run/run-faults.ts'
import { openClusterTarget } from '../../scripts/fault-test/target/cluster-target.ts'
import { JSON_CONTENT, openClient, type Request } from '../../scripts/kit/client.ts'
import { ingest, openSender, SAMPLE_EVENT } from '../../scripts/kit/events.ts'
import { type Credentials, openSession, perform, refresh } from '../../scripts/kit/operations.ts'
import { openOperator } from '../../scripts/kit/operator.ts'
import { createDatabase, openPostgres, runStatement } from '../../scripts/kit/postgres.ts'
import { startService } from '../../scripts/kit/service.ts'
import { connect, ping } from '../../src/database/connect.ts'
import { isUnavailable, StandbyError } from '../../src/database/faults.ts'
import { openFolder, whenDone } from '../support/cleanup.ts'
import { MASTER_KEYS } from '../support/test-service.ts'
import { capture } from './capture.ts'

/** Runs production on one machine, from the files of deploy/. Needs root and Debian packages (see .ci/run). */

const execute = promisify(execFile)

/** Everything that a cluster creates outside its folder. */
async function traces(): Promise<string[]> {
  const [links, namespaces, files] = await Promise.all([
    execute('ip', ['-brief', 'link']),
    execute('ip', ['netns', 'list']),
    readdir(tmpdir()),
  ])
  const all = [...links.stdout.split('\n'), ...namespaces.stdout.split('\n'), ...files]
  return all.filter((name) => /^gatehouse(-\d|-cluster|\s)/.test(name))
}

const cleanup = new AsyncDisposableStack()
whenDone(() => cleanup.disposeAsync())
const { signal } = new AbortController()
const target = await openClusterTarget({ say: console.log, signal }, cleanup).catch(
  async (error: unknown) => {
    await cleanup.disposeAsync()
    throw error
  },
)
const { cluster } = target
const { caFile } = cluster.database

test('a killed database machine loses no acknowledged change, and the audit feed skips none', async () => {
  // A standby can show sessions that have already ended.
  const primary = await cluster.database.primary()
  for (const n of MACHINES) {
    const url = Object.assign(new URL(cluster.operator.DATABASE_URL), { host: postgresOf(n) }).href
    const { db, close } = connect({ url, poolSize: 1 })
    const fault: unknown = await ping(db).then(
      () => null,
      (error: unknown) => error,
    )
    await close()
    const standby = expect.objectContaining({ cause: expect.any(StandbyError) })
    expect([n, fault]).toEqual([n, n === primary ? null : standby])
    expect(isUnavailable(fault)).toBe(n !== primary)
  }

  // Longer than the 20 s after which the machine is replaced.
  const lasting = { least: 30_000, more: 1 }
  const options = { seed: 'slow', seconds: 1, lasting, say: console.log, signal }
  const faults = choose(CLUSTER_FAULTS, ['machine-killed'])
  const result = await collectBeside(() => runFaults(target, faults, options, cleanup))
  console.log(toText(result))
  expect(result.violations).toEqual([])
  expect(result.outcomes['ok']).toBeGreaterThan(1_000)
  expect(result.outcomes['503']).toBeGreaterThan(0)
  expect(await cluster.database.primary()).not.toBe(primary)
})

/** Changes a name and collects the audit trail all the while. In the end, the collector has each entry once. */
async function collectBeside<Result>(work: () => Promise<Result>): Promise<Result> {
  const [company, url] = [target.companies[0], target.urls[0]]
  if (!company || !url) throw new Error('the cluster has companies')
  const client = openClient(url, { connections: 4, deadlineMs: 10_000 })
  const { accessToken: token } = await openSession(client, company.admin)
  const ask = async (request: Request) =>
    await client.send(request).then(
      ({ status, text }) => ({ status, body: status < 300 ? JSON.parse(text) : {} }),
      () => ({ status: 0, body: {} }),
    )
  const change = (method: 'POST' | 'PATCH', path: string, body: object) =>
    ask({ method, path: `/api/auth/${path}`, token, headers: JSON_CONTENT, body: JSON.stringify(body) })
  const { body: collector } = await change('POST', 'members', { name: 'SIEM', role: 'auditor' })
  let [isWorking, acknowledged, next] = [true, 0, '']
  const ids: string[] = []
  async function collect(): Promise<void> {
    const path = `/api/auth/audit/feed?limit=1000${next && `&after=${next}`}`
    const { status, body } = await ask({ method: 'GET', path, token: collector.password })
    if (status !== 200) return
    // Sums come later than this test ends.
    ids.push(
      ...body.entries.filter(({ count }: { count?: number }) => !count).map(({ id }: { id: string }) => id),
    )
    next = body.next ?? ''
  }
  const writing = (async () => {
    for (let n = 0; isWorking; n += 1) {
      const { status } = await change('PATCH', 'account', { name: `Ada ${n}` })
      if (status === 200) acknowledged += 1
      await sleep(100)
    }
  })()
  const reading = (async () => {
    for (; isWorking; await sleep(100)) await collect()
  })()
  const result = await work()
  isWorking = false
  await Promise.all([writing, reading])
  const { db, close } = connect({ url: cluster.operator.DATABASE_URL, poolSize: 1 })
  const rows = db.selectFrom('audit_events').select(['audit_id', 'action'])
  const stored = await rows.where('company_id', '=', company.admin.companyId).execute()
  await close()
  await expect.poll(async () => await collect().then(() => ids.length)).toBeGreaterThanOrEqual(stored.length)
  expect(ids.toSorted()).toEqual(stored.map(({ audit_id }) => audit_id).toSorted())
  expect(stored.filter(({ action }) => action === 'name_change').length).toBeGreaterThanOrEqual(acknowledged)
  expect(acknowledged).toBeGreaterThan(10)
  await client.close()
  return result
}

/** A sign-in, a refresh, and an event, and everything that nobody on the way may read. */
async function work(url: string, admin: Credentials): Promise<[what: string, text: string][]> {
  const client = openClient(url, { connections: 1 })
  const session = await openSession(client, admin)
  const first = { ...session }
  await perform(client, refresh([session]))
  const sender = await openSender(client, admin)
  await perform(client, ingest(sender))
  await client.close()
  // Packets can divide long texts, so only the ends of tokens.
  const endOf = (token: string) => token.slice(-40)
  return [
    ['password', admin.password],
    ['access token', endOf(first.accessToken)],
    ['refresh token', endOf(first.refreshToken)],
    ['new access token', endOf(session.accessToken)],
    ['new refresh token', endOf(session.refreshToken)],
    ['signing secret', sender.signingKey.toString('base64')],
    ['event', SAMPLE_EVENT.data.customer.id],
    ['SQL', 'insert into'],
  ]
}

const portOf = (url: string) => Number(new URL(url).port)

test('traffic between machines shows no password, token, or SQL (ASVS 12.3.1, 12.3.3)', async () => {
  const [company] = target.companies
  if (!company) throw new Error('the cluster has companies')
  const record = async () => {
    const texts: [what: string, text: string][] = []
    const packets = await capture(
      { filter: `net ${MACHINES_NETWORK}`, endAt: `http://${addressOf(1)}:${PORTS.patroni}` },
      async () => {
        // New connections send the text of each statement again.
        for (const proxy of cluster.databaseProxies) {
          await proxy.stop()
          proxy.start()
        }
        await cluster.healthy()
        for (const url of target.urls) texts.push(...(await work(url, company.admin)))
      },
    )
    expect(texts.filter(([, text]) => packets.shows(text))).toEqual([])
    return packets
  }
  const silent = new Set([...Object.values(PORTS), ...cluster.instances.map(({ url }) => portOf(url))])
  // Until each server has sent something. A busy machine can lose packets, too.
  let lost = 0
  for (let tries = 0; tries < 30 && (lost > 0 || silent.size > 0); tries += 1) {
    const packets = await record()
    lost = packets.lost
    for (const port of silent) if (await packets.hasAnswersFrom(port)) silent.delete(port)
  }
  expect([...silent]).toEqual([])
  expect(lost).toBe(0)
})

test('without TLS, the same capture shows all of these', async () => {
  const postgres = await openPostgres(cleanup)
  const databaseUrl = await createDatabase(postgres, cleanup)
  const settings = { databaseUrl, masterKeys: MASTER_KEYS, publicUrl: 'http://127.0.0.1' }
  const admin = await (await openOperator(settings, cleanup)).createCompany()
  const variables = { DATABASE_URL: databaseUrl, MASTER_KEYS, PUBLIC_URL: settings.publicUrl }
  const { url } = await startService({ variables, logFile: join(await openFolder(), 'log') }, cleanup)
  const texts: [what: string, text: string][] = []
  const filter = `tcp port ${portOf(url)} or tcp port ${portOf(databaseUrl)}`
  const packets = await capture({ filter, endAt: url }, async () => {
    texts.push(...(await work(url, admin)))
  })
  expect(texts.filter(([, text]) => !packets.shows(text))).toEqual([])
})

/** Calls as a machine with a certificate, or without one. */
async function callAs(machine: string | null, address: string): Promise<number> {
  // The certificate and its key are in one file.
  const own = machine && (await readFile(join(cluster.folder, machine, 'machine.pem')))
  const dispatcher = new Agent({
    connect: { ca: await readFile(caFile), ...(own && { cert: own, key: own }) },
  })
  try {
    const { statusCode, body } = await request(`https://${address}/health`, { dispatcher })
    await body.dump()
    return statusCode
  } finally {
    await dispatcher.destroy()
  }
}

test('machines refuse plaintext, and callers without a certificate (ASVS 12.3.1, 12.3.4)', async () => {
  const instances = cluster.instances.flatMap(({ url, opsUrl }, index) =>
    [url, opsUrl].map((each) => `${instanceAddress(index + 1)}:${portOf(each)}`),
  )
  const etcd = MACHINES.map((n) => `${addressOf(n)}:${PORTS.etcd}`)
  const peers = MACHINES.map((n) => `${addressOf(n)}:${PORTS.peer}`)
  const patroni = MACHINES.map((n) => `${addressOf(n)}:${PORTS.patroni}`)
  for (const address of [...instances, ...etcd, ...peers, ...patroni])
    await expect(request(`http://${address}/health`), address).rejects.toThrow()
  for (const address of [...instances, ...etcd, ...peers])
    await expect(callAs(null, address), address).rejects.toThrow()
  for (const address of [...instances, ...etcd, ...patroni])
    expect([200, 404]).toContain(await callAs('proxy-1', address))
  for (const n of MACHINES) {
    const url = Object.assign(new URL(cluster.operator.DATABASE_URL), { host: postgresOf(n), search: '' })
    await expect(runStatement(url.href, 'select')).rejects.toThrow('no encryption')
  }
})

test('a machine with a certificate from a different CA stays out (ASVS 12.3.2, 12.3.4)', async () => {
  const { machines, members, primary } = cluster.database
  const leader = await primary()
  const n = MACHINES.find((each) => each !== leader) ?? 1
  const machine = machines[n - 1]
  const home = join(cluster.folder, nameOf(n))
  const names = [addressOf(n), 'localhost']
  const foreign = await issueCertificate(await openFolder(), nameOf(n), names)
  const readLog = () => readFile(`${home}-patroni.log`, 'utf8')
  const isMember = async () => (await members()).some(({ name }) => name === nameOf(n))
  // First, others do not trust its certificate. Then it does not trust theirs.
  for (const [file, error] of [
    ['machine.pem', /alert (unknown ca|bad certificate)/],
    ['ca.pem', /certificate verify failed/],
  ] as const) {
    const own = await readFile(join(home, file))
    await machine?.kill()
    await writeFile(join(home, file), await readFile(join(foreign, file)))
    await machine?.heal()
    await expect.poll(readLog).toMatch(error)
    await expect.poll(isMember).toBe(false)
    await machine?.kill()
    await writeFile(join(home, file), own)
  }
  await machine?.heal()
  await cluster.healthy()
})

test('cleanup removes everything', async () => {
  expect(await traces()).not.toEqual([])
  await cleanup.disposeAsync()
  expect(await traces()).toEqual([])
})
