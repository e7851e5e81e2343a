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
const UserName = field(Name, 'Name of the person, on one line', 'Ada Lovelace')
const NewPassword = field(Password, 'Password that follows the rules under “Passwords”')
const CompanyId = field(Uuid, 'Company ID')
const UserId = field(Uuid, 'User ID')

export const RegisterBody = body('RegisterBody', 'A new company and its first admin', {
  companyName: field(Name, 'Name of the company, on one line', 'Acme'),
  name: UserName,
  email: Email,
  password: NewPassword,
})
export const RegisterReply = object('RegisterReply', 'The new company', {
  companyId: CompanyId,
  userId: UserId,
  status: field(
    Type.Literal('pending_verification'),
    'Always `pending_verification`: the admin has to confirm the emailed link',
    'pending_verification',
  ),
})

export const VerifyBody = body('VerifyBody', 'Token from the emailed link', { token: linkToken('verify') })
export const VerifyReply = object('VerifyReply', 'Company whose admin can now sign in', {
  companyId: CompanyId,
  companyHandle: CompanyHandle,
  email: field(Type.String(), 'Email as stored', 'ada@acme.example'),
  status: field(Type.Literal('active'), 'Always `active`: the admin can sign in', 'active'),
})

export const AccountBody = body(
  'AccountBody',
  'Company and email of an account, which need not exist',
  {
    companyId: Type.Optional(field(Id, 'Company ID. Send either this or `company`')),
    company: Type.Optional(Company),
    email: Email,
  },
  { examples: [{ company: 'acme-4821', email: 'ada@acme.example' }] },
)
export const RemindBody = body('RemindBody', 'Email, which need not belong to an account', { email: Email })

const resetToken = { token: linkToken('reset') }
export const ResetPreviewBody = body('ResetPreviewBody', 'Token from the emailed link', resetToken)
export const ResetBody = body('ResetBody', 'Token from the emailed link, and the new password', {
  ...resetToken,
  newPassword: NewPassword,
})
export const ResetPreviewReply = object('ResetPreviewReply', 'Account whose password the link resets', {
  companyName: field(Type.String(), 'Company name', 'Acme'),
  companyHandle: CompanyHandle,
  email: field(Type.String(), 'Email of the account', 'ada@acme.example'),
  expiresAt: field(Time, 'Expiry of the link'),
})

const invitationToken = { token: linkToken('invite') }
export const PreviewBody = body('PreviewBody', 'Token from the invitation', invitationToken)
export const PreviewReply = object('PreviewReply', 'An invitation', {
  companyName: field(Type.String(), 'Name of the inviting company', 'Acme'),
  email: field(Type.String(), 'Invited email', 'bob@acme.example'),
  role: Type.String({ enum: [...ROLES], description: 'Offered role', examples: ['analyst'] }),
  expiresAt: field(Time, 'Expiry of the invitation'),
})

export const AcceptBody = body('AcceptBody', 'Token from the invitation, and the new user', {
  ...invitationToken,
  name: UserName,
  password: NewPassword,
})
export const AcceptReply = object('AcceptReply', 'The new user', {
  companyId: CompanyId,
  companyHandle: CompanyHandle,
  email: field(Type.String(), 'Email as stored', 'bob@acme.example'),
  userId: UserId,
})
