import { Type } from '@fastify/type-provider-typebox'
import { ROLES } from '../company/account.ts'
import { Company, CompanyHandle, Email, field, Id, linkToken, Password, Time, Uuid } from '../http/fields.ts'

/** company/checks.ts decides which names are accepted. */
const Name = Type.String({ minLength: 1, maxLength: 100 })
const UserName = field(Name, 'The name of the person, in one line', 'Ada Lovelace')
const NewPassword = field(Password, 'By the rules for passwords')
const CompanyId = field(Uuid, 'The company')
const UserId = field(Uuid, 'The user')

const closed = { additionalProperties: false }

export const RegisterBody = Type.Object(
  {
    companyName: field(Name, 'The name of the company, in one line', 'Acme'),
    name: UserName,
    email: Email,
    password: NewPassword,
  },
  { ...closed, title: 'RegisterBody', description: 'A new company and its first admin' },
)
export const RegisterReply = Type.Object(
  {
    companyId: CompanyId,
    userId: UserId,
    status: Type.Literal('pending_verification', {
      description: 'The mailed link is awaited',
      examples: ['pending_verification'],
    }),
  },
  { title: 'RegisterReply', description: 'The company that was opened' },
)

export const VerifyBody = Type.Object(
  { token: linkToken('verify') },
  { ...closed, title: 'VerifyBody', description: 'The token of the mailed link' },
)
export const VerifyReply = Type.Object(
  {
    companyId: CompanyId,
    companyHandle: CompanyHandle,
    email: field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example'),
    status: Type.Literal('active', { description: 'The admin can sign in', examples: ['active'] }),
  },
  { title: 'VerifyReply', description: 'The company whose admin can now sign in' },
)

export const AccountBody = Type.Object(
  { companyId: Type.Optional(field(Id, 'The company')), company: Type.Optional(Company), email: Email },
  {
    ...closed,
    title: 'AccountBody',
    description: 'An account, which need not exist',
    examples: [{ company: 'acme-4821', email: 'ada@acme.example' }],
  },
)

export const RemindBody = Type.Object(
  { email: Email },
  { ...closed, title: 'RemindBody', description: 'An e-mail, which need not be known' },
)

export const ResetPreviewBody = Type.Object(
  { token: linkToken('reset') },
  { ...closed, title: 'ResetPreviewBody', description: 'The token of the mailed link' },
)
export const ResetBody = Type.Object(
  { token: linkToken('reset'), newPassword: NewPassword },
  { ...closed, title: 'ResetBody', description: 'The token of the mailed link, and the new password' },
)

export const ResetPreviewReply = Type.Object(
  {
    companyName: field(Type.String(), 'The company', 'Acme'),
    companyHandle: CompanyHandle,
    email: field(Type.String(), 'Whose password it is', 'ada@acme.example'),
    expiresAt: field(Time, 'When the link lapses'),
  },
  { title: 'ResetPreviewReply', description: 'Whose password is to be chosen' },
)

export const PreviewBody = Type.Object(
  { token: linkToken('invite') },
  { ...closed, title: 'PreviewBody', description: 'The token of the invitation' },
)
export const PreviewReply = Type.Object(
  {
    companyName: field(Type.String(), 'The company that invites', 'Acme'),
    email: field(Type.String(), 'The e-mail that was invited', 'bob@acme.example'),
    role: Type.String({ enum: [...ROLES], description: 'The role that is offered', examples: ['analyst'] }),
    expiresAt: field(Time, 'When the invitation lapses'),
  },
  { title: 'PreviewReply', description: 'What an invitation is to' },
)

export const AcceptBody = Type.Object(
  { token: linkToken('invite'), name: UserName, password: NewPassword },
  { ...closed, title: 'AcceptBody', description: 'The token of the invitation, and who accepts it' },
)
export const AcceptReply = Type.Object(
  {
    companyId: CompanyId,
    companyHandle: CompanyHandle,
    email: field(Type.String(), 'The e-mail, as it is stored', 'bob@acme.example'),
    userId: UserId,
  },
  { title: 'AcceptReply', description: 'The user that was made' },
)
