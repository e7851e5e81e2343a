import type { Static } from '@sinclair/typebox'
import type { EndReason, ProblemReply } from '../errors.ts'
import { noteUse } from './expiry.ts'
import type { Answer, Body, Query, Routes } from './routes.ts'

/** Calls the API, and turns problems into messages for people. */

type Problem = Static<typeof ProblemReply>
export type Challenge = NonNullable<Answer<'POST /auth/reauthenticate'>>

/** A failed request, or one without a response. `message` is for people. */
export class ApiError extends Error {
  readonly code: string
  /** Errors by field of the body. */
  readonly fields: Record<string, string> = {}
  readonly reason?: EndReason | undefined
  /** The HTTP status; 0 without a response. */
  readonly status: number = 0
  /** Present if a second factor is required. */
  readonly challenge?: Challenge | undefined

  constructor(code: string, message: string, details: Partial<Omit<ApiError, keyof Error | 'code'>> = {}) {
    super(message)
    this.code = code
    Object.assign(this, details)
  }
}

/** What the page finds before a request. */
export const invalid = (fields: Record<string, string>) =>
  new ApiError('invalid_request', 'Correct the marked fields.', { fields })

/** For what may have ended elsewhere: 404 is not an error. */
export function nullIfGone(error: unknown): null {
  if (error instanceof ApiError && error.status === 404) return null
  throw error
}

/** The session, and callbacks for responses about it. The application sets them. */
export const session = {
  /** The session that the page shows. Requests name it, because a sign-in in a different tab can replace its cookie. */
  shownId: null as string | null,
  /** The cookie belongs to a different session than the page shows. */
  changed: () => {},
  ended: (_reason: EndReason | undefined) => {},
  /** The company's policy requires a second factor, which this session has not used. */
  held: () => {},
  /** The user has changed elsewhere: their role, or their email. */
  outdated: () => {},
  /** Resolves after re-authentication; false if the user cancels. */
  prove: async (): Promise<boolean> => false,
}

interface Options {
  id?: string
  body?: object | null | undefined
  query?: Record<string, string | number | undefined> | undefined
  headers?: Record<string, string>
  signal?: AbortSignal
  patienceMs?: number
}

/** Undefined values are not sent. */
export type Loose<Value> = Value extends object
  ? { [Name in keyof Value]: object extends Pick<Value, Name> ? Value[Name] | undefined : Value[Name] }
  : Value

/** The options of a call, which can be left out if all of them are optional. */
type Given<Name extends keyof Routes> = Pick<Options, 'headers' | 'signal'> &
  (Name extends `${string}/:id${string}` ? { id: string } : unknown) &
  (undefined extends Body<Name>
    ? unknown
    : null extends Body<Name>
      ? { body?: Loose<Body<Name>> }
      : { body: Loose<Body<Name>> }) &
  (undefined extends Query<Name> ? unknown : { query?: Loose<Query<Name>> })
export type Arguments<Name extends keyof Routes> = object extends Given<Name> ? [Given<Name>?] : [Given<Name>]

/** 401 codes of sign-ins and events, which say nothing about the session. */
const OF_OTHERS = [
  'invalid_credentials',
  'second_factor_required',
  'invalid_second_factor',
  'invalid_signature',
]
/** The service responds within 10 s. The rest is for a slow network. */
const PATIENCE_MS = 30_000
const DOWNLOAD_MS = 10 * 60_000
/** For reads that wait for other reads of the company. */
const MAX_RETRIES = 5
/** Between retries, and before a new cookie can be expected. */
const RETRY_MS = 1_000

/** @throws ApiError */
export async function call<Name extends keyof Routes>(
  route: Name,
  ...[options]: Arguments<Name>
): Promise<Answer<Name>> {
  const answer = await carryOut(route, {
    ...options,
    headers: { ...(route !== SESSION && nameShown()), ...options?.headers },
  })
  return (answer.status === 204 ? undefined : await readJson(answer).catch(failOffline)) as Answer<Name>
}

/** Read once for a call and its retries, because they belong to the page that started it. */
function nameShown(): Record<string, string> {
  return session.shownId === null ? {} : { 'x-session-id': session.shownId }
}

async function carryOut(route: keyof Routes, options: Options, isAgain = false): Promise<Response> {
  const answer = await send(route, options)
  if (answer.ok) return answer
  const error = await toError(answer, !route.startsWith('GET '))
  if (error.code === 'reauthentication_required') {
    if (await session.prove()) return await carryOut(route, options)
    throw new ApiError(error.code, 'Nothing was changed.')
  }
  if (error.code === 'second_factor_enrolment_required') session.held()
  if (error.code === 'permission_denied') session.outdated()
  if (error.code === 'session_changed') session.changed()
  if (answer.status === 401 && !OF_OTHERS.includes(error.code)) {
    // Re-authentication can replace the cookie while a request is on its way, so it is retried once.
    if (!isAgain && route !== SESSION && (await isSignedIn(error)))
      return await carryOut(route, options, true)
    session.ended(error.reason)
  }
  throw error
}

/** Events can have numbers that JavaScript would round. Recent browsers keep their digits. */
const readJson = async (answer: Response): Promise<unknown> =>
  JSON.parse(await answer.text(), (_name, value: unknown, context?: { source?: string }) => {
    const { source } = context ?? {}
    const isRounded = typeof value === 'number' && source !== undefined && source !== String(value)
    return isRounded ? (JSON.rawJSON?.(source) ?? value) : value
  })

declare global {
  interface JSON {
    rawJSON?(text: string): object
  }
}

const SESSION = 'GET /auth/session'

/**
 * The request names its session, because a 401 would otherwise expire the cookie. If the cookie belongs to a different session,
 * the repeated request finds out.
 */
async function isSignedIn({ reason }: ApiError): Promise<boolean> {
  // Without a reason, the cookie is unknown. Re-authentication in any tab may have replaced it.
  if (reason === undefined) await wait()
  return await send(SESSION, { headers: nameShown() }).then(
    ({ status }) => status !== 401,
    () => false,
  )
}

const wait = () => new Promise((resolve) => setTimeout(resolve, RETRY_MS))

/** Fetches with the session cookie, then saves the response as a file. @throws ApiError */
export async function download<Name extends keyof Routes>(
  name: string,
  route: Name,
  ...[options]: Arguments<Name>
): Promise<void> {
  const headers = { ...nameShown(), ...options?.headers }
  const answer = await carryOut(route, { ...options, headers, patienceMs: DOWNLOAD_MS })
  saveFile(await answer.blob().catch(failOffline), name)
}

export function saveFile(content: Blob, name: string): void {
  const url = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}

async function send(route: keyof Routes, options: Options, retries = MAX_RETRIES): Promise<Response> {
  const { id = '', body, query = {}, headers, signal, patienceMs = PATIENCE_MS } = options
  const [method = '', path = ''] = route.replace('/:id', `/${encodeURIComponent(id)}`).split(' ')
  const asked = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => (value ? [[name, String(value)]] : [])),
  )
  try {
    const answer = await fetch(`/api${path}${asked.size > 0 ? `?${asked}` : ''}`, {
      method,
      credentials: 'same-origin',
      headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.any([AbortSignal.timeout(patienceMs), ...(signal ? [signal] : [])]),
    })
    if (answer.status !== 401 && answer.status < 500) noteUse(answer)
    const isSoon = answer.status === 429 && answer.headers.get('retry-after') === '1'
    if (method !== 'GET' || !isSoon || retries === 0) return answer
    await wait()
    return await send(route, options, retries - 1)
  } catch (error) {
    return failOffline(error)
  }
}

/** Also called when a response is cut off. */
function failOffline(error: unknown): never {
  // The caller no longer waits for it.
  if (error instanceof DOMException && error.name === 'AbortError') throw error
  throw new ApiError('offline', "We can't reach gatehouse. Check your connection and try again.")
}

async function toError(answer: Response, isChange = false): Promise<ApiError> {
  const problem: Problem | null = await answer.json().catch(() => null)
  const { status } = answer
  const wait = Number(answer.headers.get('retry-after') ?? 0)
  if (status === 429)
    return new ApiError('rate_limited', `Too many attempts. Try again in ${inWords(wait)}.`, { status })
  if ([502, 503, 504].includes(status)) {
    // `overloaded` means that no work was started.
    const isUnknown = isChange && problem?.code !== 'overloaded'
    const state = isUnknown ? 'gatehouse is busy, and your request may have succeeded' : 'gatehouse is busy'
    return new ApiError('overloaded', `${state}. Try again in ${inWords(Math.max(1, wait))}.`, { status })
  }
  if (!problem) return new ApiError('unknown', 'Something went wrong on our side. Try again.', { status })
  const fields = Object.fromEntries(
    (problem.errors ?? []).map(({ path, message }) => [path.slice(1), message]),
  )
  const { code, detail, reason } = problem
  return new ApiError(code, detail, { fields, reason, status, challenge: challengeOf(problem) })
}

function challengeOf({ challenge, methods, passkeyOptions }: Problem): Challenge | undefined {
  if (challenge === undefined || methods === undefined) return undefined
  return { challenge, methods, ...(passkeyOptions && { passkeyOptions }) }
}

export function inWords(seconds: number): string {
  if (seconds < 90) return `${seconds} ${seconds === 1 ? 'second' : 'seconds'}`
  const minutes = Math.round(seconds / 60)
  return minutes < 90 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`
}
