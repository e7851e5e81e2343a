import type { Static, TSchema } from '@sinclair/typebox'
import type { AuditReply, DailyReply } from '../audit/schemas.ts'
import type { ProblemReply } from '../errors.ts'
import type { InvitationsReply, MemberReply, MembersReply, ServiceMemberReply } from '../member/schemas.ts'
import type { AcceptReply, PreviewReply } from '../onboarding/schemas.ts'
import type {
  ConfirmReply,
  CreationOptionsReply,
  FactorsReply,
  PasskeyReply,
  PolicyReply,
  RecoveryCodesReply,
  TotpReply,
} from '../second-factor/schemas.ts'
import type { SessionReply, SessionsReply } from '../session/schemas.ts'
import type { ChallengeReply, PasskeyChallengeReply } from '../sign-in/schemas.ts'
import type { RefusalsReply, RegenerateReply, StatusReply } from '../signing-secret/schemas.ts'

/** The public interface, as the pages use it. The types of answers are those of the schemas that the service answers by. */

type Of<Schema extends TSchema> = Static<Schema>

export type Session = Of<typeof SessionReply>
export type OwnSessions = Of<typeof SessionsReply>
export type SecretStatus = Of<typeof StatusReply>
export type NewSecret = Of<typeof RegenerateReply>
export type Refusals = Of<typeof RefusalsReply>
export type Member = Of<typeof MemberReply>
export type Members = Of<typeof MembersReply>
export type ServiceCredential = Of<typeof ServiceMemberReply>
export type OpenInvitations = Of<typeof InvitationsReply>
export type Audit = Of<typeof AuditReply>
export type Daily = Of<typeof DailyReply>
export type Invitation = Of<typeof PreviewReply>
export type NewMember = Of<typeof AcceptReply>
export type SecondFactors = Of<typeof FactorsReply>
export type Challenge = Of<typeof ChallengeReply>
export type PasskeyChallenge = Of<typeof PasskeyChallengeReply>
export type CreationOptions = Of<typeof CreationOptionsReply>
export type NewPasskey = Of<typeof PasskeyReply>
export type NewAuthenticator = Of<typeof TotpReply>
export type ConfirmedAuthenticator = Of<typeof ConfirmReply>
export type NewRecoveryCodes = Of<typeof RecoveryCodesReply>
export type Security = Of<typeof PolicyReply>
type Problem = Of<typeof ProblemReply>

interface Details {
  /** What is wrong, by the name of a field of the body. */
  fields?: Record<string, string>
  reason?: string | undefined
  /** Of HTTP; 0 without an answer. */
  status?: number
  /** What the second factor answers, if one is asked for. */
  challenge?: Challenge | undefined
}

/** An answer that is no success, or none at all. `message` is for people. */
export class ApiError extends Error {
  readonly code: string
  readonly fields: Record<string, string>
  readonly reason: string | undefined
  readonly status: number
  readonly challenge: Challenge | undefined

  constructor(code: string, message: string, { fields = {}, reason, status = 0, challenge }: Details = {}) {
    super(message)
    this.code = code
    this.fields = fields
    this.reason = reason
    this.status = status
    this.challenge = challenge
  }
}

interface Call {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  body?: object
  headers?: Record<string, string>
}

/** What happens when a session has ended or is held, and when a change asks for a recent proof. The application sets it. */
export const session = {
  ended: (_reason: string | undefined) => {},
  /** The policy of the company asks for a second factor, which this session has not proven. */
  held: () => {},
  /** Resolves once the user has proven who they are; false if they do not want to. */
  prove: async (): Promise<boolean> => false,
}

/** Refusals of 401 that tell nothing of the session: they answer a sign-in. */
const OF_SIGN_IN = ['invalid_credentials', 'second_factor_required', 'invalid_second_factor']

const HELD = 'second_factor_enrolment_required'

/** Calls the interface. The caller names the schema's type of the answer. @throws ApiError */
export async function call<Answer>(path: string, options: Call = {}, isAgain = false): Promise<Answer> {
  const answer = await send(path, options)
  if (answer.ok) return answer.status === 204 ? (undefined as Answer) : await answer.json().catch(failOffline)
  const error = await toError(answer)
  if (error.code === 'reauthentication_required') {
    if (await session.prove()) return await call(path, options)
    throw new ApiError(error.code, 'Nothing is changed: this needs a proof that it is you.')
  }
  if (error.code === HELD) session.held()
  if (answer.status === 401 && !OF_SIGN_IN.includes(error.code)) {
    // A request can be on its way while a proof gives the session another cookie: then it is tried once more.
    if (!isAgain && path !== SESSION && (await isSignedIn())) return await call(path, options, true)
    session.ended(error.reason)
  }
  throw error
}

const SESSION = '/auth/session'

async function isSignedIn(): Promise<boolean> {
  return await send(SESSION, { method: 'GET' }).then(
    ({ ok }) => ok,
    () => false,
  )
}

/** Saves what the interface streams. The cookie goes with the request, so it is fetched and then saved. @throws ApiError */
export async function download(path: string, accept: string, name: string): Promise<void> {
  const answer = await send(path, { method: 'GET', headers: { accept } })
  if (!answer.ok) {
    const error = await toError(answer)
    if (error.code === HELD) session.held()
    throw error
  }
  saveFile(await answer.blob().catch(failOffline), name)
}

/** Saves what the page has, as a file. */
export function saveFile(content: Blob, name: string): void {
  const url = URL.createObjectURL(content)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  URL.revokeObjectURL(url)
}

async function send(path: string, { method = 'POST', body, headers }: Call): Promise<Response> {
  try {
    return await fetch(`/api${path}`, {
      method,
      credentials: 'same-origin',
      headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    })
  } catch {
    return failOffline()
  }
}

/** Also for an answer that breaks off. */
function failOffline(): never {
  throw new ApiError('offline', 'The service cannot be reached. Check your connection, then try again.')
}

async function toError(answer: Response): Promise<ApiError> {
  const problem: Problem | null = await answer.json().catch(() => null)
  const { status } = answer
  const wait = Number(answer.headers.get('retry-after') ?? 0)
  if (answer.status === 429)
    return new ApiError('rate_limited', `That was too often. Try again in ${inWords(wait)}.`, { status })
  if (answer.status === 503)
    return new ApiError('overloaded', `The service is busy. Try again in ${inWords(Math.max(1, wait))}.`, {
      status,
    })
  if (!problem)
    return new ApiError('unknown', 'The service gave an answer that this page does not know.', { status })
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

function inWords(seconds: number): string {
  if (seconds < 90) return `${seconds} ${seconds === 1 ? 'second' : 'seconds'}`
  const minutes = Math.round(seconds / 60)
  return minutes < 90 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`
}
