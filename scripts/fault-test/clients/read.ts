import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { openClient } from '../../kit/client.ts'
import type { Site } from '../target/site.ts'
import { type Actor, note } from './perform.ts'

const Page = TypeCompiler.Compile(
  Type.Object({
    events: Type.Array(
      Type.Object({
        companyId: Type.String(),
        id: Type.String(),
        data: Type.Object({ content: Type.String() }),
      }),
    ),
    next: Type.Union([Type.String(), Type.Null()]),
    isCaughtUp: Type.Boolean(),
  }),
)
const PAGE = 1_000
const LOOK_MS = 200
const PATIENCE_MS = 60_000

/**
 * A platform client that follows the feed with a cursor. The returned function reads to the end, reads everything again, and
 * notes what is stored for each sent id.
 */
export function followFeed(actor: Actor, site: Site, cleanup: AsyncDisposableStack): () => Promise<void> {
  const { notes, random } = actor
  const { id, secret } = site.reader
  const headers = { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }
  const clients = site.platformUrls.map((url) => openClient(url, { connections: 1 }))
  for (const client of clients) cleanup.defer(() => client.close())
  let deadline = Number.POSITIVE_INFINITY

  /** Reads from the start. At the end, it waits for new events until there is a deadline. */
  async function readAll(take: (key: string, content: string) => void): Promise<void> {
    for (let after = ''; !cleanup.disposed; ) {
      if (performance.now() > deadline) throw new Error('the feed did not reach its end')
      const isEnding = deadline !== Number.POSITIVE_INFINITY
      const path = `/events?limit=${PAGE}${after}`
      const client = random.pick(clients)
      const page = await client.request(200, { method: 'GET', path, headers }).catch(() => null)
      if (!Page.Check(page)) {
        await sleep(LOOK_MS)
        continue
      }
      for (const { companyId, id, data } of page.events) take(`${companyId} ${id}`, data.content)
      if (page.next !== null) after = `&after=${page.next}`
      if (page.isCaughtUp && isEnding) return
      if (page.events.length < PAGE) await sleep(LOOK_MS)
    }
  }

  const following = readAll((key) => notes.feed.push(key))
  // The returned function rejects with its error.
  following.catch(() => {})
  return async () => {
    deadline = performance.now() + PATIENCE_MS
    await following
    const found = new Map<string, string[]>()
    await readAll((key, content) => {
      notes.feedAtLast.push(key)
      found.set(key, [...(found.get(key) ?? []), content])
    })
    const parts = notes.history.flatMap((operation) => operation.parts)
    const sent = parts.flatMap((part) => (part.kind === 'event' ? [part.id] : []))
    const now = performance.now()
    for (const id of new Set([...sent, ...found.keys()])) {
      const part = { kind: 'event', id, act: 'read', contents: found.get(id) ?? [] } as const
      note(actor, 'GET /events', part, { begin: now, end: now, outcome: 'ok' })
    }
  }
}
