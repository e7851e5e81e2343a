import type { FastifyReply, FastifyRequest } from 'fastify'
import { limitHeaders } from '../limits/answer.ts'
import { setDeviceCookie, setSessionCookie } from '../session/cookie.ts'
import { toSessionReply, toTokenReply } from '../session/replies.ts'
import { logContextOf } from '../session/session.ts'
import type { SignedIn } from './opening.ts'

/** The answer to a completed sign-in: tokens in the body, or cookies and a body without them. */
export function answerSignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { session, credential, limit }: SignedIn,
) {
  Object.assign(request.logContext, logContextOf(session))
  if (limit) reply.headers(limitHeaders(limit))
  if ('tokens' in credential) return toTokenReply(session, credential.tokens)
  setSessionCookie(reply, credential.cookie)
  if (credential.device !== null) setDeviceCookie(reply, credential.device)
  return toSessionReply(session)
}
