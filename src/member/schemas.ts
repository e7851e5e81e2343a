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
  description: 'What the member is in the company',
  examples: ['analyst'],
})
const ServiceRole = Type.String({
  enum: ROLES.filter((role) => role !== 'admin'),
  description: 'What the server is in the company: any role but admin',
  examples: ['analyst'],
})
const assignments = (description: string) =>
  Type.Array(
    Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9:._/-]{0,99}$',
      'x-must': 'must be 1 to 100 of A-Z a-z 0-9 : . _ / - and begin with a letter or digit',
      minLength: 1,
      maxLength: 100,
      description: '1 to 100 of `A-Z a-z 0-9 : . _ / -`, the first of which is a letter or digit',
      examples: ['environment:production'],
    }),
    {
      maxItems: 50,
      uniqueItems: true,
      description: `${description}. At most 50, each once; the service gives them back and does not read them`,
      examples: [['environment:production']],
    },
  )
const Assignments = assignments('What the member works on; production if it is not said')
const storedAssignments = (description: string) =>
  field(Type.Array(Type.String()), description, ['environment:production'])
const Name = field(Type.String({ minLength: 1, maxLength: 100 }), 'The name, in one line', 'Ada Lovelace')
const StoredEmail = field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example')
const MemberId = field(Uuid, 'The member')
const Status = field(
  Type.Union([Type.Literal('active'), Type.Literal('disabled')]),
  'A disabled member has no session and cannot sign in',
  'active',
)

export const MemberParams = Type.Object({ id: field(Id, 'The member') })
export const MembersQuery = Type.Object(
  {
    ...pageQuery,
    search: Type.Optional(
      Type.String({
        // Postgres cannot store U+0000.
        pattern: '^[^\\u0000]{1,100}$',
        'x-must': 'must have 1 to 100 characters, without U+0000',
        description: 'A part of the name or the e-mail, accents and case aside',
        examples: ['ada'],
      }),
    ),
    role: Type.Optional(field(Role, 'Only members with this role')),
    status: Type.Optional(field(Status, 'Only members in this state')),
  },
  { additionalProperties: false },
)

export const MemberReply = object('Member', 'A person or a server of the company', {
  id: MemberId,
  kind: field(
    Type.Union([Type.Literal('person'), Type.Literal('service')]),
    'A person, or a server of the company',
    'person',
  ),
  email: StoredEmail,
  name: field(Type.String(), 'The name', 'Ada Lovelace'),
  role: Role,
  assignments: storedAssignments('What the member works on'),
  status: Status,
  emailVerified: field(Type.Boolean(), 'Whether the e-mail is proven; before, nobody signs in with it', true),
  secondFactors: field(
    Type.Array(Type.Union([Type.Literal('totp'), Type.Literal('passkey')])),
    'What the member proves besides a password',
    [],
  ),
  passwords: Type.Optional(WorkingPasswords),
  lastSignInAt: orNull(Time, 'To the hour; null if never', '2026-11-20T10:00:00.000Z'),
  createdAt: field(Time, 'When the member came'),
})
export const MembersReply = object('MembersReply', 'Members of the company', {
  members: Type.Array(MemberReply, { description: 'By name' }),
  total: field(Type.Integer(), 'How many match, on all pages', 214),
  nextCursor: NextCursor,
})
export const MemberChangeBody = body(
  'MemberChangeBody',
  'What is to be changed',
  {
    role: Type.Optional(field(Role, 'What the member is in the company from now on; a server is no admin')),
    assignments: Type.Optional(assignments('What the member works on from now on, all of it')),
    status: Type.Optional(Status),
    mailCode: MailCode,
  },
  { minProperties: 1 },
)

export const CompanyChangeBody = body(
  'CompanyChangeBody',
  'What is to be changed',
  {
    name: Type.Optional(field(Name, 'Its name, in one line', 'Acme')),
    handle: Type.Optional(
      field(Type.String({ minLength: 1, maxLength: 40 }), 'What people type in place of its id', 'acme'),
    ),
  },
  { minProperties: 1 },
)
export const CompanyReply = object('Company', 'How the company is called', {
  id: field(Uuid, 'The company'),
  name: field(Type.String(), 'Its name, as it is stored', 'Acme'),
  handle: CompanyHandle,
})

export const ServiceMemberBody = body('ServiceMemberBody', 'A server of the company', {
  name: Name,
  role: ServiceRole,
  assignments: Type.Optional(Assignments),
})
export const ServiceMemberReply = object('ServiceMemberReply', 'What the server signs in with', {
  id: MemberId,
  email: field(Type.String(), 'Made up; no mail goes to it', 'billing-worker-4821@service.invalid'),
  password: ServicePassword,
})

export const InvitationParams = Type.Object({ id: field(Id, 'The invitation') })
export const InvitationsQuery = Type.Object(pageQuery, { additionalProperties: false })
export const InvitationBody = body('InvitationBody', 'Who is invited, and as what', {
  email: Email,
  role: Role,
  assignments: Type.Optional(Assignments),
  mailCode: MailCode,
})
const Sender = object('InvitationSender', 'A member who invites', {
  id: MemberId,
  email: orNull(Type.String(), 'Their e-mail', 'ada@acme.example'),
})
export const InvitationReply = object('Invitation', 'An invitation that is open', {
  id: field(Uuid, 'The invitation'),
  email: field(Type.String(), 'Who is invited', 'bob@acme.example'),
  role: Role,
  assignments: storedAssignments('What the member will work on'),
  invitedBy: Type.Union([Sender, Type.Null()], { description: 'Who invites; null for an operator' }),
  createdAt: field(Time, 'When it was made'),
  expiresAt: orNull(
    Time,
    'Until when the link works; null until its mail is sent',
    '2026-11-23T10:15:00.000Z',
  ),
  mail: field(
    Type.Union([Type.Literal('waiting'), Type.Literal('sent'), Type.Literal('failed')]),
    'What has become of its mail',
    'sent',
  ),
})
export const InvitationsReply = object('InvitationsReply', 'The open invitations of the company', {
  invitations: Type.Array(InvitationReply, { description: 'The newest first' }),
  nextCursor: NextCursor,
})

export const AccountBody = body('AccountChangeBody', 'What is to be changed of the own account', {
  name: Name,
})
export const AccountReply = object('Account', 'The own account', {
  id: field(Uuid, 'The user'),
  email: StoredEmail,
  name: field(Type.String(), 'The name, as it is stored', 'Ada Lovelace'),
  role: Role,
})
export const PasswordChangeBody = body('PasswordChangeBody', 'The old password and the new one', {
  currentPassword: field(Password, 'The password of today. A wrong one counts as a failed sign-in'),
  newPassword: field(Password, 'Another one, by the rules for passwords', 'another password of hers'),
})
export const EmailChangeBody = body('EmailChangeBody', 'The e-mail of tomorrow', {
  newEmail: Email,
  mailCode: MailCode,
})
export const ConfirmBody = body('ConfirmBody', 'The token of a mailed link', { token: linkToken('confirm') })

export const UndoBody = body('UndoBody', 'The token of a link to undo', { token: linkToken('undo') })
const Added = object('AddedMember', 'A member whom the account added', {
  id: MemberId,
  email: field(Type.String(), 'The email address', 'bob@acme.example'),
  name: field(Type.String(), 'The name', 'Bob'),
  role: Role,
})
const NewSigningSecret = object('NewSigningSecret', 'A signing secret from the account', {
  version: field(Type.Integer(), 'Its version', 4),
  createdAt: field(Time, 'When it was created'),
})
const additions = 'What the account added to the company since the change, and the undo does not remove'
export const UndoReply = object('UndoReply', 'The account that was restored', {
  companyId: field(Uuid, 'The company of the account'),
  email: field(Type.String(), 'Its address, to which the next link is mailed', 'ada@acme.example'),
  additions: object('Additions', additions, {
    members: Type.Array(Added, { description: 'Who accepted an invitation of the account' }),
    serviceAccounts: Type.Array(Added, {
      description: 'Service accounts that have a password from the account',
    }),
    signingSecret: Type.Union([NewSigningSecret, Type.Null()], {
      description: 'The current signing secret, if the account created it',
    }),
  }),
})
