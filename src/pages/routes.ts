import type { Static, TSchema } from '@sinclair/typebox'
import type { AuditQuery, AuditReply, DailyQuery, DailyReply } from '../audit/schemas.ts'
import type { IngestReply, ReceivedEventsQuery, ReceivedEventsReply } from '../ingest/schemas.ts'
import type * as member from '../member/schemas.ts'
import type * as servicePassword from '../member/service-password-schemas.ts'
import type * as onboarding from '../onboarding/schemas.ts'
import type * as factor from '../second-factor/schemas.ts'
import type * as session from '../session/schemas.ts'
import type * as signIn from '../sign-in/schemas.ts'
import type * as secret from '../signing-secret/schemas.ts'

/** The routes that the pages call, typed by the service's schemas: a name that changes there does not compile here. */

type Schema = TSchema | null
interface Route<Answer extends Schema, Body extends Schema = null, Query extends Schema = null> {
  answer: Answer extends TSchema ? Static<Answer> : undefined
  body: Body extends TSchema ? Static<Body> : undefined
  query: Query extends TSchema ? Static<Query> : undefined
}

export interface Routes {
  'POST /auth/login': Route<typeof session.SessionReply, typeof signIn.LoginBody>
  'POST /auth/login/second-factor': Route<typeof session.SessionReply, typeof signIn.SecondFactorBody>
  'POST /auth/login/passkey/options': Route<typeof signIn.PasskeyChallengeReply>
  'POST /auth/login/passkey': Route<typeof session.SessionReply, typeof signIn.PasskeyLoginBody>
  'POST /auth/logout': Route<null>
  'POST /auth/register': Route<typeof onboarding.RegisterReply, typeof onboarding.RegisterBody>
  'POST /auth/verify-email': Route<typeof onboarding.VerifyReply, typeof onboarding.VerifyBody>
  'POST /auth/verify-email/resend': Route<null, typeof onboarding.AccountBody>
  'POST /auth/password/forgot': Route<null, typeof onboarding.AccountBody>
  'POST /auth/password/reset/preview': Route<
    typeof onboarding.ResetPreviewReply,
    typeof onboarding.ResetPreviewBody
  >
  'POST /auth/password/reset': Route<null, typeof onboarding.ResetBody>
  'POST /auth/companies/remind': Route<null, typeof onboarding.RemindBody>
  'POST /auth/invitations/preview': Route<typeof onboarding.PreviewReply, typeof onboarding.PreviewBody>
  'POST /auth/invitations/accept': Route<typeof onboarding.AcceptReply, typeof onboarding.AcceptBody>
  'POST /auth/email/confirm/preview': Route<typeof member.EmailChangePreviewReply, typeof member.ConfirmBody>
  'POST /auth/email/confirm': Route<null, typeof member.ConfirmBody>
  'POST /auth/undo': Route<typeof member.UndoReply, typeof member.UndoBody>

  'GET /auth/session': Route<typeof session.SessionReply>
  'GET /auth/sessions': Route<typeof session.SessionsReply>
  'DELETE /auth/sessions/:id': Route<null>
  /** With a cookie, it returns a challenge, or nothing after success. */
  'POST /auth/reauthenticate': Route<typeof signIn.ChallengeReply | null, typeof signIn.ReauthenticateBody>
  'POST /auth/reauthenticate/passkey/options': Route<typeof signIn.PasskeyChallengeReply>
  'PATCH /auth/account': Route<typeof member.AccountReply, typeof member.AccountBody>
  'DELETE /auth/account': Route<null>
  'GET /auth/account/export': Route<null>
  'GET /auth/email/change': Route<typeof member.EmailChangeReply>
  'POST /auth/email/change': Route<null, typeof member.EmailChangeBody>
  'DELETE /auth/email/change': Route<null>
  'POST /auth/password/change': Route<null, typeof member.PasswordChangeBody>
  'GET /auth/second-factors': Route<typeof factor.FactorsReply>
  'POST /auth/second-factors/mail-code': Route<null, typeof factor.MailCodeBody>
  'POST /auth/second-factors/totp': Route<typeof factor.TotpReply, typeof factor.TotpBody>
  'POST /auth/second-factors/totp/:id/confirm': Route<typeof factor.ConfirmReply, typeof factor.ConfirmBody>
  'POST /auth/second-factors/passkeys/options': Route<typeof factor.CreationOptionsReply>
  'POST /auth/second-factors/passkeys': Route<typeof factor.PasskeyReply, typeof factor.PasskeyBody>
  'POST /auth/second-factors/recovery-codes': Route<typeof factor.RecoveryCodesReply>
  'DELETE /auth/second-factors/:id': Route<null>

  'POST /auth/webhook-secret/status': Route<typeof secret.StatusReply>
  'POST /auth/webhook-secret/regenerate': Route<typeof secret.RegenerateReply, typeof secret.RegenerateBody>
  'GET /auth/webhook-secret/refusals': Route<typeof secret.RefusalsReply>
  'GET /auth/events': Route<typeof ReceivedEventsReply, null, typeof ReceivedEventsQuery>
  /** The service keeps the text of `data`, so its own type is a different one. */
  'POST /events/ingest': Omit<Route<typeof IngestReply>, 'body'> & { body: { type: string; data: object } }

  'GET /auth/members': Route<typeof member.MembersReply, null, typeof member.MembersQuery>
  'POST /auth/members': Route<typeof member.ServiceMemberReply, typeof member.ServiceMemberBody>
  'GET /auth/members/:id': Route<typeof member.MemberReply>
  'PATCH /auth/members/:id': Route<typeof member.MemberReply, typeof member.MemberChangeBody>
  'DELETE /auth/members/:id': Route<null>
  'POST /auth/members/:id/password': Route<
    typeof servicePassword.ServicePasswordReply,
    typeof servicePassword.ServicePasswordBody
  >
  'DELETE /auth/members/:id/sessions': Route<null>
  'DELETE /auth/members/:id/second-factors': Route<null>
  'GET /auth/invitations': Route<typeof member.InvitationsReply, null, typeof member.InvitationsQuery>
  'POST /auth/invitations': Route<typeof member.InvitationReply, typeof member.InvitationBody>
  'POST /auth/invitations/:id/resend': Route<null>
  'DELETE /auth/invitations/:id': Route<null>
  'PATCH /auth/company': Route<typeof member.CompanyReply, typeof member.CompanyChangeBody>
  'DELETE /auth/company/sessions': Route<null>
  'GET /auth/company/security': Route<typeof factor.PolicyReply>
  'PATCH /auth/company/security': Route<typeof factor.PolicyReply, typeof factor.PolicyBody>
  'GET /auth/audit': Route<typeof AuditReply, null, typeof AuditQuery>
  'GET /auth/audit/daily': Route<typeof DailyReply, null, typeof DailyQuery>
}

export type Answer<Name extends keyof Routes> = Routes[Name]['answer']
export type Body<Name extends keyof Routes> = Routes[Name]['body']
export type Query<Name extends keyof Routes> = Routes[Name]['query']

export type Session = Answer<'GET /auth/session'>
export type Member = Answer<'PATCH /auth/members/:id'>
export type SecondFactors = Answer<'GET /auth/second-factors'>
export type SecretStatus = Answer<'POST /auth/webhook-secret/status'>
export type NewSecret = Answer<'POST /auth/webhook-secret/regenerate'>
export type Refusal = Answer<'GET /auth/webhook-secret/refusals'>['refusals'][number]
export type AuditEntry = Answer<'GET /auth/audit'>['entries'][number]
export type Day = Answer<'GET /auth/audit/daily'>['days'][number]
export type Security = Answer<'GET /auth/company/security'>
export type NewAuthenticator = Answer<'POST /auth/second-factors/totp'>
export type PasskeyChallenge = Answer<'POST /auth/login/passkey/options'>
export type PasskeyProof = Body<'POST /auth/login/passkey'>
