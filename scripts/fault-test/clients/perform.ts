import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Client, codeOf, JSON_CONTENT, type Request } from '../../kit/client.ts'
import { AWAY, type Observed, type Operation, type Part } from '../checker/history.ts'
import type { Outcome } from '../checker/search.ts'
import type { Random } from '../random.ts'

/** Sends requests, and notes what came of each. */

const text = Type.Optional(Type.String())
const count = Type.Optional(Type.Integer())
/** What is read of answers. Each has a part of it, and more that does not matter here. */
const Reply = Type.Object({
  code: text,
  detail: text,
  reason: text,
  session: Type.Optional(Type.Object({ id: Type.String() })),
  user: Type.Optional(Type.Object({ email: Type.String() })),
  accessContext: Type.Optional(Type.Object({ companyId: Type.String() })),
  accessToken: text,
  refreshToken: text,
  id: text,
  email: text,
  secret: text,
  version: count,
  accepted: count,
  duplicates: count,
})
const ReplyCheck = TypeCompiler.Compile(Reply)
export type Reply = Static<typeof Reply>

export interface Session {
  id: string
  accessToken: string
  refreshToken: string
}

/** What all clients share. */
export interface Notes extends Observed {
  history: Operation[]
  feed: string[]
  feedAtLast: string[]
  /** All that were opened, with their first tokens. */
  sessions: Session[]
}

export interface Actor {
  name: string
  random: Random
  notes: Notes
  /** Of each way to the service. */
  clients: readonly Client[]
  /** Aborted when no new work should begin. */
  ending: AbortSignal
}

export interface Ask {
  /** Method and path below /api. */
  what: `${Request['method']} /${string}`
  token?: string
  json?: object
  headers?: Record<string, string>
  /** Which way; by default any. */
  at?: number | undefined
  /** Whether an answer that reports success is the one to this request. */
  isAnswer?(reply: Reply): boolean
  /** What it means for subjects, given how it ended. */
  parts(answer: Answered): Part[]
}

export interface Answered {
  outcome: Outcome
  status: number
  code: string
  reply: Reply
}

/** Nobody listens: nothing was sent. */
const NOT_SENT = new Set(['ECONNREFUSED', 'UND_ERR_CONNECT_TIMEOUT'])
const PAUSE_MS = 300
const RETRY_MS = 250
const MOST_ATTEMPTS = 40

export const openNotes = (): Notes => ({ history: [], sessions: [], feed: [], feedAtLast: [] })

/** Does something again and again, until no new work should begin. */
export async function repeat({ ending, random }: Actor, work: () => Promise<unknown>): Promise<void> {
  while (!ending.aborted) {
    await sleep(random.fraction() * PAUSE_MS)
    await work()
  }
}

/** One attempt. Without an answer, it waits a while. */
export async function perform(actor: Actor, ask: Ask): Promise<Answered> {
  const { name, random, notes, clients } = actor
  const { what, token, json, headers } = ask
  const way = ask.at ?? random.below(clients.length)
  const [method = '', path = ''] = what.split(' ')
  const client = clients[way]
  if (!client) throw new Error('there is no such way')
  const begin = performance.now()
  const answer = await attempt(client, {
    method: method as Request['method'],
    path: `/api${path}`,
    ...(token !== undefined && { token }),
    headers: { ...(json && JSON_CONTENT), ...headers },
    ...(json && { body: JSON.stringify(json) }),
  })
  const { outcome, status, code, reply } = answer
  notes.history.push({
    ...{ client: name, what, way, begin, end: performance.now(), outcome, code, status },
    isOther: outcome === 'ok' && ask.isAnswer?.(reply) === false,
    parts: NOT_SENT.has(code) ? [] : ask.parts(answer),
  })
  if (outcome === 'unknown') await sleep(RETRY_MS)
  return answer
}

async function attempt(client: Client, request: Request): Promise<Answered> {
  const answer = await client.send(request).catch((error: unknown) => ({ status: 0, text: '', error }))
  if ('error' in answer) return { outcome: 'unknown', status: 0, code: codeOf(answer.error), reply: {} }
  const { status, text } = answer
  // A proxy that has lost the service can return a page.
  const isPage = AWAY.includes(status) && !text.startsWith('{')
  const reply: unknown = text === '' || isPage ? {} : JSON.parse(text)
  if (!ReplyCheck.Check(reply)) throw new Error(`${request.path} returned something else: ${text}`)
  const outcome = status < 300 ? 'ok' : status >= 500 ? 'unknown' : 'refused'
  // A theft that is found now, in contrast to a refusal because of a session that an earlier theft ended.
  const isTheft = reply.code === 'refresh_token_reused' && reply.reason === 'refresh_reuse'
  return { outcome, status, code: isTheft ? 'refresh_reuse' : (reply.code ?? ''), reply }
}

/** Until it is known how it ended. A retry is the same request: only what can be repeated is. */
export async function performUntilKnown(actor: Actor, ask: Ask): Promise<Answered> {
  for (let left = MOST_ATTEMPTS; ; left -= 1) {
    const answer = await perform(actor, ask)
    if (answer.outcome !== 'unknown' || left <= 1) return answer
  }
}

/** On all instances at the same time. */
export async function atAll({ clients }: Actor, work: (at: number) => Promise<unknown>): Promise<void> {
  await Promise.all(clients.keys().map(work))
}

/** Something that is known without a request of a client. */
export function note(
  { name, notes }: Actor,
  what: string,
  part: Part,
  seen: Pick<Operation, 'begin' | 'end' | 'outcome'>,
): void {
  notes.history.push({ client: name, what, ...seen, code: '', status: 0, parts: [part] })
}
