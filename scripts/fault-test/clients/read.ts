import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { request } from 'undici'
import type { Site } from '../target/site.ts'
import { type Actor, note, perform } from './perform.ts'

/** What is there when all is quiet again, as the service shows it. */

const Page = TypeCompiler.Compile(
  Type.Object({
    events: Type.Array(
      Type.Object({
        companyId: Type.String(),
        id: Type.String(),
        data: Type.Object({ content: Type.Optional(Type.String()) }),
      }),
    ),
    next: Type.Union([Type.String(), Type.Null()]),
    isCaughtUp: Type.Boolean(),
  }),
)
const PAGE = 1_000
const LOOK_MS = 200
const PATIENCE_MS = 60_000

/** All events, in the feed for services of the platform, and for each id that was sent what came of it. */
export async function readEvents(actor: Actor, site: Site): Promise<void> {
  const reader = await site.reader()
  const secret = Buffer.from(`${reader.id}:${reader.secret}`).toString('base64')
  const ids = new Set(site.companies.map(({ companyId }) => companyId))
  const found = new Map<string, string[]>()
  let after: string | null = null
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const query: string = after === null ? '' : `&after=${after}`
    const url = `${actor.random.pick(site.platformUrls)}/events?limit=${PAGE}${query}`
    const page = await getJson(url, secret).catch((error: Error) => error)
    if (!Page.Check(page)) {
      if (performance.now() > deadline) throw new Error('the feed does not answer', { cause: page })
      await sleep(LOOK_MS)
      continue
    }
    for (const { companyId, id, data } of page.events) {
      if (!ids.has(companyId)) continue
      const key = `${companyId} ${id}`
      found.set(key, [...(found.get(key) ?? []), data.content ?? ''])
    }
    after = page.next ?? after
    if (page.isCaughtUp) break
    if (page.events.length === 0) await sleep(LOOK_MS)
  }
  const sent = actor.notes.history.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.kind === 'event' ? [part.id] : [])),
  )
  for (const id of new Set([...sent, ...found.keys()]))
    note(actor, 'GET /events', { kind: 'event', id, act: 'read', contents: found.get(id) ?? [] })
}

/** @throws if the answer is not 200 */
async function getJson(url: string, secret: string): Promise<unknown> {
  const { statusCode, body } = await request(url, { headers: { authorization: `Basic ${secret}` } })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`${statusCode} ${text}`)
  return JSON.parse(text)
}

/** Whether each session that was opened is alive, by the access token that came with it, or by its cookie. */
export async function readSessions(actor: Actor): Promise<void> {
  const { notes } = actor
  for (const [id, credential] of notes.credentials) {
    await perform(actor, {
      what: 'GET /auth/session',
      ...credential,
      asked: id,
      answeredOf: ({ session }) => session?.id,
      parts: () => [
        { kind: 'session', id, act: 'use', ...('cookie' in credential && { cookie: credential.cookie }) },
      ],
    })
  }
}
