import { Type } from '@fastify/type-provider-typebox'
import { ROLES } from '../company/account.ts'
import {
  body,
  CompanyHandle,
  Email,
  field,
  Id,
  linkToken,
  MailCode,
  object,
  Password,
  Time,
  Uuid,
} from '../http/fields.ts'
import { NextCursor, pageQuery } from '../http/list-pages.ts'
import { orNull, ServicePassword, WorkingPasswords } from './service-password-schemas.ts'

const Role = Type.String({
  enum: [...ROLES],
  description: 'Role of the member',
  examples: ['analyst'],
})
const ServiceRole = Type.String({
  enum: ROLES.filter((role) => role !== 'admin'),
  description: 'Role of the service account: any role except admin',
  examples: ['analyst'],
})
const assignments = (description: string) =>
  Type.Array(
    Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9:._/-]{0,99}$',
      'x-must': 'must have 1 to 100 characters of A-Z a-z 0-9 : . _ / - and start with a letter or digit',
      minLength: 1,
      maxLength: 100,
      description: '1 to 100 characters of `A-Z a-z 0-9 : . _ / -`, starting with a letter or digit',
      examples: ['environment:production'],
    }),
    {
      maxItems: 50,
      uniqueItems: true,
      description: `${description}. At most 50, without duplicates. The service stores and returns them, and does not interpret them`,
      examples: [['environment:production']],
    },
  )
const Assignments = assignments('Assignments of the member; `environment:production` by default')
const storedAssignments = (description: string) =>
  field(Type.Array(Type.String()), description, ['environment:production'])
const Name = field(Type.String({ minLength: 1, maxLength: 100 }), 'Name, in one line', 'Ada Lovelace')
const StoredEmail = field(Type.String(), 'Email, as it is stored', 'ada@acme.example')
const MemberId = field(Uuid, 'ID of the member')
const Status = field(
  Type.Union([Type.Literal('active'), Type.Literal('disabled')]),
  'Status. A disabled member has no sessions and cannot sign in',
  'active',
)

const Kind = field(
  Type.Union([Type.Literal('person'), Type.Literal('service')]),
  'Kind of member; `service` is a service account',
  'person',
)

export const MemberParams = Type.Object({ id: field(Id, 'ID of the member') })
export const MembersQuery = Type.Object(
  {
    ...pageQuery,
    search: Type.Optional(
      Type.String({
        // Postgres cannot store U+0000.
        pattern: '^[^\\u0000]{1,100}$',
        'x-must': 'must have 1 to 100 characters, without U+0000',
        description: 'Part of the name or email, ignoring accents and case',
        examples: ['ada'],
      }),
    ),
    role: Type.Optional(field(Role, 'Only members with this role')),
    status: Type.Optional(field(Status, 'Only members with this status')),
    kind: Type.Optional(field(Kind, 'Only members of this kind')),
    secondFactor: Type.Optional(
      field(
        Type.Union([Type.Literal('yes'), Type.Literal('no')]),
        'Only people with a second factor, or only people without one. Service accounts match neither',
        'no',
      ),
    ),
  },
  { additionalProperties: false },
)

export const MemberReply = object('Member', 'A person or service account of the company', {
  id: MemberId,
  kind: Kind,
  email: StoredEmail,
  name: field(Type.String(), 'Name', 'Ada Lovelace'),
  role: Role,
  assignments: storedAssignments('Assignments of the member'),
  status: Status,
  emailVerified: field(
    Type.Boolean(),
    'Whether the email is verified. Until then, nobody can sign in with it',
    true,
  ),
  secondFactors: field(
    Type.Array(Type.Union([Type.Literal('totp'), Type.Literal('passkey')])),
    'Kinds of second factors that the member has',
    [],
  ),
  passwords: Type.Optional(WorkingPasswords),
  lastSignInAt: orNull(Time, 'Hour of the last sign-in; null if never', '2026-11-20T10:00:00.000Z'),
  createdAt: field(Time, 'Time when the member was added'),
})
export const MembersReply = object('MembersReply', 'Members of the company', {
  members: Type.Array(MemberReply, { description: 'Members, sorted by name' }),
  total: field(Type.Integer(), 'Number of matching members on all pages', 214),
  nextCursor: NextCursor,
})
export const MemberChangeBody = body(
  'MemberChangeBody',
  'Changes to a member',
  {
    role: Type.Optional(field(Role, 'New role. A service account cannot be an admin')),
    assignments: Type.Optional(assignments('New assignments, which replace all current ones')),
    status: Type.Optional(Status),
    mailCode: MailCode,
  },
  { minProperties: 1 },
)

export const CompanyChangeBody = body(
  'CompanyChangeBody',
  'Changes to the company',
  {
    name: Type.Optional(field(Name, 'Name, in one line', 'Acme')),
    handle: Type.Optional(
      field(
        Type.String({ minLength: 1, maxLength: 40 }),
        'Handle, which people type instead of the company ID',
        'acme',
      ),
    ),
  },
  { minProperties: 1 },
)
export const CompanyReply = object('Company', 'ID, name, and handle of the company', {
  id: field(Uuid, 'ID of the company'),
  name: field(Type.String(), 'Name, as it is stored', 'Acme'),
  handle: CompanyHandle,
})

export const ServiceMemberBody = body('ServiceMemberBody', 'New service account', {
  name: Name,
  role: ServiceRole,
  assignments: Type.Optional(Assignments),
})
export const ServiceMemberReply = object('ServiceMemberReply', 'Credentials of the service account', {
  id: MemberId,
  email: field(
    Type.String(),
    'Generated email, which receives nothing',
    'billing-worker-4821@service.invalid',
  ),
  password: ServicePassword,
})

export const InvitationParams = Type.Object({ id: field(Id, 'ID of the invitation') })
export const InvitationsQuery = Type.Object(pageQuery, { additionalProperties: false })
export const InvitationBody = body('InvitationBody', 'New invitation', {
  email: Email,
  role: Role,
  assignments: Type.Optional(Assignments),
  mailCode: MailCode,
})
const Sender = object('InvitationSender', 'Member who sent the invitation', {
  id: MemberId,
  email: orNull(Type.String(), 'Email; null once the member is deleted', 'ada@acme.example'),
})
export const InvitationReply = object('Invitation', 'Open invitation', {
  id: field(Uuid, 'ID of the invitation'),
  email: field(Type.String(), 'Email of the invited person', 'bob@acme.example'),
  role: Role,
  assignments: storedAssignments('Assignments of the future member'),
  invitedBy: Type.Union([Sender, Type.Null()], {
    description: 'Sender of the invitation; null for an operator',
  }),
  createdAt: field(Time, 'Time of creation'),
  expiresAt: orNull(
    Time,
    'Time when the link expires; null until the email is sent',
    '2026-11-23T10:15:00.000Z',
  ),
  mail: field(
    Type.Union([Type.Literal('waiting'), Type.Literal('sent'), Type.Literal('failed')]),
    'Delivery status of the invitation email',
    'sent',
  ),
})
export const InvitationsReply = object('InvitationsReply', 'Open invitations of the company', {
  invitations: Type.Array(InvitationReply, { description: 'Invitations, newest first' }),
  nextCursor: NextCursor,
})

export const AccountBody = body('AccountChangeBody', 'Changes to your account', {
  name: Name,
})
export const AccountReply = object('Account', 'Your account', {
  id: field(Uuid, 'ID of the user'),
  email: StoredEmail,
  name: field(Type.String(), 'Name, as it is stored', 'Ada Lovelace'),
  role: Role,
})
export const PasswordChangeBody = body('PasswordChangeBody', 'Current and new password', {
  currentPassword: field(Password, 'Current password. A wrong one counts as a failed sign-in'),
  newPassword: field(
    Password,
    'New password, which must meet the rules for passwords',
    'quiet lakes seldom freeze',
  ),
})
export const EmailChangeBody = body('EmailChangeBody', 'The new email address', {
  newEmail: Email,
  mailCode: MailCode,
})
export const EmailChangeReply = object('EmailChange', 'Your pending email change', {
  email: field(Type.String(), 'New email, which is not confirmed yet', 'ada@new.example'),
  requestedAt: field(Time, 'Time of the request'),
  expiresAt: orNull(
    Time,
    'Time when the link expires; null until the email is sent',
    '2026-11-21T10:15:00.000Z',
  ),
})
export const ConfirmBody = body('ConfirmBody', 'Token of a confirmation link', {
  token: linkToken('confirm'),
})

export const EmailChangePreviewReply = object('EmailChangePreview', 'The change that the link confirms', {
  companyName: field(Type.String(), 'Company name', 'Acme'),
  email: field(Type.String(), 'Current email of the account', 'ada@acme.example'),
  newEmail: field(Type.String(), 'New email', 'ada@new.example'),
})

export const UndoBody = body('UndoBody', 'Token of an undo link', { token: linkToken('undo') })
const Added = object('AddedMember', 'Member that the account added', {
  id: MemberId,
  email: field(Type.String(), 'Email', 'bob@acme.example'),
  name: field(Type.String(), 'Name', 'Bob'),
  role: Role,
})
const NewSigningSecret = object('NewSigningSecret', 'Signing secret that the account created', {
  version: field(Type.Integer(), 'Version', 4),
  createdAt: field(Time, 'Time of creation'),
})
const additions = 'Additions of the account to the company since the change, which the undo does not remove'
export const UndoReply = object('UndoReply', 'The restored account', {
  companyId: field(Uuid, 'ID of the company'),
  email: field(Type.String(), 'Restored email, to which the next link is sent', 'ada@acme.example'),
  additions: object('Additions', additions, {
    members: Type.Array(Added, { description: 'Members who accepted an invitation from the account' }),
    serviceAccounts: Type.Array(Added, {
      description: 'Service accounts with a password from the account',
    }),
    signingSecret: Type.Union([NewSigningSecret, Type.Null()], {
      description: 'Current signing secret, if the account created it',
    }),
  }),
})
