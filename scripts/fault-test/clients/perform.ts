import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Client, JSON_CONTENT, type Request } from '../../kit/client.ts'
import type { Operation, Part } from '../checker/history.ts'
import { AWAY, type Outcome } from '../checker/seen.ts'
import type { Random } from '../random.ts'

/** Sends requests, and notes what came of each. */

const text = Type.Optional(Type.String())
/** What is read of answers: each has a part of it, and what is not known here besides. */
const Reply = Type.Object({
  code: text,
  detail: text,
  reason: text,
  companyId: text,
  session: Type.Optional(Type.Object({ id: Type.String() })),
  user: Type.Optional(Type.Object({ email: Type.String() })),
  accessContext: Type.Optional(Type.Object({ companyId: Type.String() })),
  accessToken: text,
  refreshToken: text,
  id: text,
  email: text,
  password: text,
  role: text,
  /** Of a member; a number in a problem. */
  status: Type.Optional(Type.Union([Type.String(), Type.Integer()])),
  secret: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  version: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
  challenge: text,
  recoveryCodes: Type.Optional(Type.Union([Type.Integer(), Type.Array(Type.String())])),
  accepted: Type.Optional(Type.Integer()),
  duplicates: Type.Optional(Type.Integer()),
})
const ReplyCheck = TypeCompiler.Compile(Reply)
export type Reply = Static<typeof Reply>

export type Credential = { token: string } | { cookie: string }

/** What all clients share. */
export interface Notes {
  history: Operation[]
  /** Of each session, the first access token that was seen, or the newest cookie. */
  credentials: Map<string, Credential>
  /** When a change was acknowledged, and on which way. */
  writes: { at: number; way: number }[]
  /** The ids of events, in the order in which the feed gave them. */
  feed: string[]
  /** The same, when all was read once more at the end. */
  feedAtLast: string[]
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
  /** In place of a token. */
  cookie?: string
  json?: object
  headers?: Record<string, string>
  /** In place of `json`. */
  body?: string
  /** Which way; by default any. */
  at?: number
  /** Whose answer it must be, and how an answer tells. */
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
  /** The session cookie that it sets. */
  cookie?: string
}

/** Nobody listens: nothing was sent. */
const NOT_SENT = new Set(['ECONNREFUSED', 'UND_ERR_CONNECT_TIMEOUT'])
const RETRY_MS = 250
/** What browsers say of requests of our own pages. */
export const SAME_SITE = { 'sec-fetch-site': 'same-origin' }

export function openNotes(): Notes {
  return { history: [], credentials: new Map(), writes: [], feed: [], feedAtLast: [], errors: new Map() }
}

/** One attempt. If nobody listens, it waits a while, and notes nothing. */
export async function perform(actor: Actor, ask: Ask): Promise<Answered> {
  const { name, random, notes, clients } = actor
  const { what, token, cookie, json, headers, asked, answeredOf } = ask
  const [method = '', path = ''] = what.split(' ')
  const way = ask.at ?? random.below(clients.length)
  const client = clients[way]
  if (!client) throw new Error('there is no such way')
  const body = json ? JSON.stringify(json) : ask.body
  const begin = performance.now()
  const answer = await attempt(client, {
    method: method as Request['method'],
    path: `/api${path}`,
    ...(token !== undefined && { token }),
    headers: {
      ...(json && JSON_CONTENT),
      ...(cookie !== undefined && { ...SAME_SITE, cookie: `__Host-session=${cookie}` }),
      ...headers,
    },
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
  if (reply.session && reply.accessToken && !notes.credentials.has(reply.session.id))
    notes.credentials.set(reply.session.id, { token: reply.accessToken })
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
  const { status, text, cookies } = answer
  const reply: unknown = text === '' || (AWAY.includes(status) && !isJson(text)) ? {} : JSON.parse(text)
  if (!ReplyCheck.Check(reply)) throw new Error(`${request.path} answered something else: ${text}`)
  const outcome = status < 300 ? 'ok' : status >= 500 ? 'unknown' : 'refused'
  // A theft that is found now, and not what a session that it ended is refused for.
  const isTheft = reply.code === 'refresh_token_reused' && reply.reason === 'refresh_reuse'
  const code = isTheft ? 'refresh_reuse' : (reply.code ?? '')
  const [, cookie] = /^__Host-session=([^;]+)/m.exec(cookies.join('\n')) ?? []
  return { outcome, status, code, reply, ...(cookie !== undefined && { cookie }) }
}

/** What a proxy says can be a page. */
const isJson = (text: string) => text.startsWith('{')

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'other'
}

/** Until it is known how it ended, or it was tried so often. A retry is the same request: only what can be repeated is. */
export async function performUntilKnown(actor: Actor, ask: Ask, attempts = 40): Promise<Answered> {
  for (let left = attempts; ; left -= 1) {
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

/** What is so without a request; or can be at any time from now on, if it is unknown. */
export function note({ name, notes }: Actor, what: string, part: Part, outcome: Outcome = 'ok'): void {
  const now = performance.now()
  const end = outcome === 'unknown' ? Number.POSITIVE_INFINITY : now
  notes.history.push({
    client: name,
    what,
    begin: now,
    end,
    outcome,
    code: '',
    status: 0,
    parts: [part],
  })
}
