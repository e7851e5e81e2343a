import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import { type Person, useSharedService } from '../support/test-service.ts'

/** Slow readers get their whole export. Readers that take nothing are cut off after ten seconds. */

const { service } = await useSharedService()
const [server] = service.apps.map((app) => app.server)
const [address = ''] = service.addresses
const LINES = 15_000
/** The listener reads the clock when it checks its connections, and when one opens or closes. */
const looking = vi.spyOn(service.clock, 'elapsed')

/** A company with an audit trail of 15 MB, more than systems buffer, and its admin's token. */
async function talkativeCompany() {
  const admin = await service.addCompany()
  const { accessToken: token } = await service.loginAs(admin)
  await sql`
    insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor, details)
    select ${admin.companyId}::uuid, gen_random_uuid(), now() - make_interval(secs => n), 'chat', 'done', 'operator',
      json_build_object('text', repeat('x', 1000))
    from generate_series(1, ${LINES}::int) n`.execute(service.db)
  return { ...admin, token }
}

/** Starts an export. Only `takeSome` reads from it, up to 64 KB. */
async function beginExport({ token }: Person & { token: string }) {
  const { hostname, port } = new URL(address)
  const taken: string[] = []
  const callback = (count: number, buffer: Uint8Array) => {
    taken.push(Buffer.from(buffer.subarray(0, count)).toString('latin1'))
    return false
  }
  const onread = { buffer: Buffer.alloc(65_536), callback }
  const socket = connect({ port: Number(port), host: hostname, onread }).on('error', () => {})
  const head = `Authorization: Bearer ${token}\r\nAccept: application/x-ndjson`
  socket.write(`GET /api/auth/audit?action=chat HTTP/1.1\r\nHost: gatehouse.example\r\n${head}\r\n\r\n`)
  const [{ socket: peer }] = await once(server ?? socket, 'request')
  return { peer: peer as Socket, taken, takeSome: () => socket.resume(), end: () => socket.destroy() }
}

/** Waits until the listener checks its connections, as it does every second. */
async function look() {
  const before = looking.mock.calls.length
  await expect.poll(() => looking.mock.calls.length).toBeGreaterThan(before)
}

test('an unread export ends after ten seconds (ASVS 15.1.3)', async () => {
  const company = await talkativeCompany()
  const { peer, end } = await beginExport(company)
  await expect.poll(() => peer.writableLength).toBeGreaterThan(0)
  let seconds = 0
  // Bytes that the system still buffers count as read.
  while (!peer.destroyed) {
    await look()
    service.clock.advance(3)
    seconds += 3
  }
  expect(seconds).toBeGreaterThanOrEqual(10)
  end()
  const next = { method: 'GET', token: company.token, headers: { accept: 'application/x-ndjson' } }
  const status = async () => (await service.call('/auth/audit?action=none', next)).status
  await expect.poll(status).toBe(200)
})

test('a slowly read export completes', async () => {
  const { peer, taken, takeSome, end } = await beginExport(await talkativeCompany())
  await expect.poll(() => peer.writableLength).toBeGreaterThan(0)
  let seconds = 0
  const isComplete = () => taken.at(-1)?.endsWith('\r\n0\r\n\r\n') ?? false
  while (!isComplete()) {
    await look()
    service.clock.advance(9)
    seconds += 9
    const before = peer.bytesWritten
    const takeMore = () => {
      takeSome()
      return peer.destroyed || isComplete() || peer.bytesWritten > before + 4_000_000
    }
    await expect.poll(takeMore, { interval: 1 }).toBe(true)
    expect(peer.destroyed).toBe(false)
  }
  expect(seconds).toBeGreaterThan(20)
  expect(taken.join('').match(/"action":"chat"/g)?.length).toBe(LINES)
  end()
})
