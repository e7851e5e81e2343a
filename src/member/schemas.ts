import { Type } from '@fastify/type-provider-typebox'
import { ROLES } from '../company/account.ts'
import { CompanyHandle, Email, field, Id, linkToken, MailCode, Password, Time, Uuid } from '../http/fields.ts'
import { NextCursor, pageQuery } from '../http/list-pages.ts'
import { ServicePassword, WorkingPasswords } from './service-password-schemas.ts'

const closed = { additionalProperties: false } as const

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
const Name = field(Type.String({ minLength: 1, maxLength: 100 }), 'The name, in one line', 'Ada Lovelace')
const Status = Type.Union([Type.Literal('active'), Type.Literal('disabled')], {
  description: 'A disabled member has no session and cannot sign in',
  examples: ['active'],
})

export const MemberParams = Type.Object({ id: field(Id, 'The member') })
export const MembersQuery = Type.Object(
  {
    ...pageQuery,
    search: Type.Optional(
      Type.String({
        // Postgres stores no U+0000.
        pattern: '^[^\\u0000]{1,100}$',
        'x-must': 'must have 1 to 100 characters, without U+0000',
        description: 'A part of the name or the e-mail, accents and case aside',
        examples: ['ada'],
      }),
    ),
    role: Type.Optional(field(Role, 'Only members with this role')),
    status: Type.Optional(field(Status, 'Only members in this state')),
  },
  closed,
)

export const MemberReply = Type.Object(
  {
    id: field(Uuid, 'The member'),
    kind: Type.Union([Type.Literal('person'), Type.Literal('service')], {
      description: 'A person, or a server of the company',
      examples: ['person'],
    }),
    email: field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example'),
    name: field(Type.String(), 'The name', 'Ada Lovelace'),
    role: Role,
    assignments: field(Type.Array(Type.String()), 'What the member works on', ['environment:production']),
    status: Status,
    emailVerified: field(
      Type.Boolean(),
      'Whether the e-mail is proven; before, nobody signs in with it',
      true,
    ),
    secondFactors: field(
      Type.Array(Type.Union([Type.Literal('totp'), Type.Literal('passkey')])),
      'What the member proves besides a password',
      [],
    ),
    passwords: Type.Optional(WorkingPasswords),
    lastSignInAt: Type.Union([Time, Type.Null()], {
      description: 'To the hour; null if never',
      examples: ['2026-11-20T10:00:00.000Z'],
    }),
    createdAt: field(Time, 'When the member came'),
  },
  { title: 'Member', description: 'A person or a server of the company' },
)

export const MembersReply = Type.Object(
  {
    members: Type.Array(MemberReply, { description: 'By name' }),
    total: field(Type.Integer(), 'How many match, on all pages', 214),
    nextCursor: NextCursor,
  },
  { title: 'MembersReply', description: 'Members of the company' },
)

export const MemberChangeBody = Type.Object(
  {
    role: Type.Optional(field(Role, 'What the member is in the company from now on; a server is no admin')),
    assignments: Type.Optional(assignments('What the member works on from now on, all of it')),
    status: Type.Optional(Status),
    mailCode: MailCode,
  },
  { ...closed, minProperties: 1, title: 'MemberChangeBody', description: 'What is to be changed' },
)

export const CompanyChangeBody = Type.Object(
  {
    name: Type.Optional(
      field(Type.String({ minLength: 1, maxLength: 100 }), 'Its name, in one line', 'Acme'),
    ),
    handle: Type.Optional(
      field(Type.String({ minLength: 1, maxLength: 40 }), 'What people type in place of its id', 'acme'),
    ),
  },
  { ...closed, minProperties: 1, title: 'CompanyChangeBody', description: 'What is to be changed' },
)
export const CompanyReply = Type.Object(
  {
    id: field(Uuid, 'The company'),
    name: field(Type.String(), 'Its name, as it is stored', 'Acme'),
    handle: CompanyHandle,
  },
  { title: 'Company', description: 'How the company is called' },
)

export const ServiceMemberBody = Type.Object(
  { name: Name, role: ServiceRole, assignments: Type.Optional(Assignments) },
  { ...closed, title: 'ServiceMemberBody', description: 'A server of the company' },
)

export const ServiceMemberReply = Type.Object(
  {
    id: field(Uuid, 'The member'),
    email: field(Type.String(), 'Made up; no mail goes to it', 'billing-worker-4821@service.invalid'),
    password: ServicePassword,
  },
  { title: 'ServiceMemberReply', description: 'What the server signs in with' },
)
export const InvitationParams = Type.Object({ id: field(Id, 'The invitation') })
export const InvitationsQuery = Type.Object(pageQuery, closed)
export const InvitationBody = Type.Object(
  { email: Email, role: Role, assignments: Type.Optional(Assignments), mailCode: MailCode },
  { ...closed, title: 'InvitationBody', description: 'Who is invited, and as what' },
)

const Sender = Type.Union(
  [
    Type.Object(
      {
        id: field(Uuid, 'The member'),
        email: Type.Union([Type.String(), Type.Null()], {
          description: 'Their e-mail',
          examples: ['ada@acme.example'],
        }),
      },
      { title: 'InvitationSender', description: 'A member who invites' },
    ),
    Type.Null(),
  ],
  { description: 'Who invites; null for an operator' },
)

export const InvitationReply = Type.Object(
  {
    id: field(Uuid, 'The invitation'),
    email: field(Type.String(), 'Who is invited', 'bob@acme.example'),
    role: Role,
    assignments: field(Type.Array(Type.String()), 'What the member will work on', ['environment:production']),
    invitedBy: Sender,
    createdAt: field(Time, 'When it was made'),
    expiresAt: Type.Union([Time, Type.Null()], {
      description: 'Until when the link works; null until its mail is sent',
      examples: ['2026-11-23T10:15:00.000Z'],
    }),
    mail: Type.Union([Type.Literal('waiting'), Type.Literal('sent'), Type.Literal('failed')], {
      description: 'What has become of its mail',
      examples: ['sent'],
    }),
  },
  { title: 'Invitation', description: 'An invitation that is open' },
)

export const InvitationsReply = Type.Object(
  {
    invitations: Type.Array(InvitationReply, { description: 'The newest first' }),
    nextCursor: NextCursor,
  },
  { title: 'InvitationsReply', description: 'The open invitations of the company' },
)

export const AccountBody = Type.Object(
  { name: Name },
  { ...closed, title: 'AccountChangeBody', description: 'What is to be changed of the own account' },
)
export const AccountReply = Type.Object(
  {
    id: field(Uuid, 'The user'),
    email: field(Type.String(), 'The e-mail, as it is stored', 'ada@acme.example'),
    name: field(Type.String(), 'The name, as it is stored', 'Ada Lovelace'),
    role: Role,
  },
  { title: 'Account', description: 'The own account' },
)
export const EmailChangeBody = Type.Object(
  { newEmail: Email, mailCode: MailCode },
  { ...closed, title: 'EmailChangeBody', description: 'The e-mail of tomorrow' },
)
export const ConfirmBody = Type.Object(
  { token: linkToken('confirm') },
  { ...closed, title: 'ConfirmBody', description: 'The token of a mailed link' },
)

export const UndoBody = Type.Object(
  { token: linkToken('undo') },
  { ...closed, title: 'UndoBody', description: 'The token of a link to undo' },
)
const Added = Type.Object(
  {
    id: field(Uuid, 'The member'),
    email: field(Type.String(), 'The email address', 'bob@acme.example'),
    name: field(Type.String(), 'The name', 'Bob'),
    role: Role,
  },
  { title: 'AddedMember', description: 'A member whom the account added' },
)
export const UndoReply = Type.Object(
  {
    companyId: field(Uuid, 'The company of the account'),
    email: field(Type.String(), 'Its address, to which the next link is mailed', 'ada@acme.example'),
    additions: Type.Object(
      {
        members: Type.Array(Added, { description: 'Who accepted an invitation of the account' }),
        serviceAccounts: Type.Array(Added, {
          description: 'Service accounts that have a password from the account',
        }),
        signingSecret: Type.Union(
          [
            Type.Object(
              {
                version: field(Type.Integer(), 'Its version', 4),
                createdAt: field(Time, 'When it was created'),
              },
              { title: 'NewSigningSecret', description: 'A signing secret from the account' },
            ),
            Type.Null(),
          ],
          { description: 'The current signing secret, if the account created it' },
        ),
      },
      {
        title: 'Additions',
        description: 'What the account added to the company since the change, and the undo does not remove',
      },
    ),
  },
  { title: 'UndoReply', description: 'The account that was restored' },
)

export const PasswordChangeBody = Type.Object(
  {
    currentPassword: field(Password, 'The password of today. A wrong one counts as a failed sign-in'),
    newPassword: field(Password, 'Another one, by the rules for passwords', 'another password of hers'),
  },
  {
    additionalProperties: false,
    title: 'PasswordChangeBody',
    description: 'The old password and the new one',
  },
)
