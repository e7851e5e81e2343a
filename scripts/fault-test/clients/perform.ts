import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Client, codeOf, JSON_CONTENT, type Request } from '../../kit/client.ts'
import { AWAY, type Observed, type Operation, type Part } from '../checker/history.ts'
import type { Outcome } from '../checker/search.ts'
import type { Random } from '../random.ts'

/** Sends requests, and notes what came of each. */

const text = Type.Optional(Type.String())
/** What is read of answers. Each has a part of it, and more that does not matter here. */
const Reply = Type.Object({
  code: text,
  detail: text,
  reason: text,
  session: Type.Optional(Type.Object({ id: Type.String() })),
  user: Type.Optional(Type.Object({ email: Type.String() })),
  accessContext: Type.Optional(Type.Object({ companyId: Type.String() })),
  companyId: text,
  accessToken: text,
  refreshToken: text,
  id: text,
  email: text,
  password: text,
  secret: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  version: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  accepted: Type.Optional(Type.Integer()),
  duplicates: Type.Optional(Type.Integer()),
})
const ReplyCheck = TypeCompiler.Compile(Reply)
export type Reply = Static<typeof Reply>

/** What all clients share. */
export interface Notes extends Observed {
  history: Operation[]
  feed: string[]
  feedAtLast: string[]
  /** The first access token of each session. */
  accessTokens: Map<string, string>
  /** When a change was acknowledged, and on which way. */
  writes: { at: number; way: number }[]
  /** By status, or by the error of the connection, of what was not answered otherwise. */
  errors: Map<string, number>
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
  /** Instead of `json`. */
  body?: string
  /** Which way; by default any. */
  at?: number | undefined
  /** Whose answer it must be, and how to read that from an answer. */
  asked?: string
  answeredOf?: (reply: Reply) => string | undefined
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
const RETRY_MS = 250
const MOST_ATTEMPTS = 40

export function openNotes(): Notes {
  return { history: [], accessTokens: new Map(), writes: [], feed: [], feedAtLast: [], errors: new Map() }
}

/** One attempt. If nobody listens, it waits a while, and notes nothing. */
export async function perform(actor: Actor, ask: Ask): Promise<Answered> {
  const { name, random, notes, clients } = actor
  const { what, token, json, headers, asked, answeredOf } = ask
  const way = ask.at ?? random.below(clients.length)
  const [method = '', path = ''] = what.split(' ')
  const client = clients[way]
  if (!client) throw new Error('there is no such way')
  const body = json ? JSON.stringify(json) : ask.body
  const begin = performance.now()
  const answer = await attempt(client, {
    method: method as Request['method'],
    path: `/api${path}`,
    ...(token !== undefined && { token }),
    headers: { ...(json && JSON_CONTENT), ...headers },
    ...(body !== undefined && { body }),
  })
  const end = performance.now()
  const { outcome, status, code, reply } = answer
  if (outcome === 'unknown') {
    const error = status === 0 ? code : String(status)
    notes.errors.set(error, (notes.errors.get(error) ?? 0) + 1)
    await sleep(RETRY_MS)
  }
  if (outcome === 'ok' && method !== 'GET') notes.writes.push({ at: end, way })
  if (reply.session && reply.accessToken && !notes.accessTokens.has(reply.session.id))
    notes.accessTokens.set(reply.session.id, reply.accessToken)
  if (NOT_SENT.has(code)) return answer
  const answered = asked === undefined ? undefined : answeredOf?.(reply)
  notes.history.push({
    ...{ client: name, what, begin, end, outcome, code, status },
    ...(asked !== undefined && { asked }),
    ...(answered !== undefined && { answered }),
    parts: ask.parts(answer),
  })
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

export async function atAll<T>({ clients }: Actor, work: (at: number) => Promise<T>): Promise<T[]> {
  return await Promise.all(clients.keys().map(work))
}

/** Between two requests of one client. */
export async function pause({ random }: Actor, mostMs: number): Promise<void> {
  await sleep(random.fraction() * mostMs)
}

/** Something that is known without a request of a client. With `unknownSince`: something that may have happened after that. */
export function note({ name, notes }: Actor, what: string, part: Part, unknownSince?: number): void {
  const now = performance.now()
  const seen =
    unknownSince === undefined
      ? ({ begin: now, end: now, outcome: 'ok' } as const)
      : ({ begin: unknownSince, end: Number.POSITIVE_INFINITY, outcome: 'unknown' } as const)
  notes.history.push({ client: name, what, ...seen, code: '', status: 0, parts: [part] })
}
