import { Type } from '@fastify/type-provider-typebox'
import { ROLES } from '../company/account.ts'
import {
  body,
  Company,
  CompanyHandle,
  Email,
  field,
  Id,
  linkToken,
  object,
  Password,
  Time,
  Uuid,
} from '../http/fields.ts'

/** company/checks.ts decides which names are accepted. */
const Name = Type.String({ minLength: 1, maxLength: 100 })
const UserName = field(Name, 'The name of the person, in one line', 'Ada Lovelace')
const NewPassword = field(Password, 'By the rules for passwords')
const CompanyId = field(Uuid, 'The company')
const UserId = field(Uuid, 'The user')

export const RegisterBody = body('RegisterBody', 'A new company and its first admin', {
  companyName: field(Name, 'The name of the company, in one line', 'Acme'),
  name: UserName,
  email: Email,
  password: NewPassword,
})
export const RegisterReply = object('RegisterReply', 'The company that was opened', {
  companyId: CompanyId,
  userId: UserId,
  status: field(Type.Literal('pending_verification'), 'The mailed link is awaited', 'pending_verification'),
})

export const VerifyBody = body('VerifyBody', 'The token of the mailed link', { token: linkToken('verify') })
export const VerifyReply = object('VerifyReply', 'The company whose admin can now sign in', {
  companyId: CompanyId,
  companyHandle: CompanyHandle,
  email: field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example'),
  status: field(Type.Literal('active'), 'The admin can sign in', 'active'),
})

export const AccountBody = body(
  'AccountBody',
  'An account, which need not exist',
  { companyId: Type.Optional(field(Id, 'The company')), company: Type.Optional(Company), email: Email },
  { examples: [{ company: 'acme-4821', email: 'ada@acme.example' }] },
)
export const RemindBody = body('RemindBody', 'An e-mail, which need not be known', { email: Email })

const resetToken = { token: linkToken('reset') }
export const ResetPreviewBody = body('ResetPreviewBody', 'The token of the mailed link', resetToken)
export const ResetBody = body('ResetBody', 'The token of the mailed link, and the new password', {
  ...resetToken,
  newPassword: NewPassword,
})
export const ResetPreviewReply = object('ResetPreviewReply', 'Whose password is to be chosen', {
  companyName: field(Type.String(), 'The company', 'Acme'),
  companyHandle: CompanyHandle,
  email: field(Type.String(), 'Whose password it is', 'ada@acme.example'),
  expiresAt: field(Time, 'When the link lapses'),
})

const invitationToken = { token: linkToken('invite') }
export const PreviewBody = body('PreviewBody', 'The token of the invitation', invitationToken)
export const PreviewReply = object('PreviewReply', 'What an invitation is to', {
  companyName: field(Type.String(), 'The company that invites', 'Acme'),
  email: field(Type.String(), 'The e-mail that was invited', 'bob@acme.example'),
  role: Type.String({ enum: [...ROLES], description: 'The role that is offered', examples: ['analyst'] }),
  expiresAt: field(Time, 'When the invitation lapses'),
})

export const AcceptBody = body('AcceptBody', 'The token of the invitation, and who accepts it', {
  ...invitationToken,
  name: UserName,
  password: NewPassword,
})
export const AcceptReply = object('AcceptReply', 'The user that was made', {
  companyId: CompanyId,
  companyHandle: CompanyHandle,
  email: field(Type.String(), 'The e-mail, as it is stored', 'bob@acme.example'),
  userId: UserId,
})
