import { once } from 'node:events'
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { check } from '../../scripts/fault-test/checker/check.ts'
import { openNotes, perform } from '../../scripts/fault-test/clients/perform.ts'
import { createRandom } from '../../scripts/fault-test/random.ts'
import { openClient } from '../../scripts/kit/client.ts'

/** How clients of `npm run fault-test` judge responses. */

async function ask(status: number, type: string, body: string) {
  await using cleanup = new AsyncDisposableStack()
  const server = createServer((_, answer) => answer.writeHead(status, { 'content-type': type }).end(body))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanup.defer(() => void server.close())
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  const client = openClient(`http://127.0.0.1:${address.port}`, { connections: 1 })
  cleanup.defer(() => client.close())
  const actor = {
    name: 'ada',
    random: createRandom('any'),
    notes: openNotes(),
    clients: [client],
    ending: new AbortController().signal,
  }
  const { outcome } = await perform(actor, { what: 'POST /auth/logout', parts: () => [] })
  return { outcome, violations: check(actor.notes, ({ end }) => end).map(({ what }) => what) }
}

test.each([502, 503, 504])('a proxy page with status %i counts as no response', async (status) => {
  expect(await ask(status, 'text/html', '<h1>Sorry</h1>')).toEqual({ outcome: 'unknown', violations: [] })
})

test('an error from the service, or a page instead, is a violation', async () => {
  const { violations } = await ask(500, 'application/problem+json', '{"code":"internal_error"}')
  expect(violations).toEqual(['POST /auth/logout returned 500'])
  await expect(ask(404, 'text/html', '<h1>Lost</h1>')).rejects.toThrow()
})
