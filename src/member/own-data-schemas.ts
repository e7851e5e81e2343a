import type { Readable } from 'node:stream'
import { type TProperties, Type } from '@sinclair/typebox'
import { AuditEntry } from '../audit/schemas.ts'
import { CompanyHandle, field, object, Time, Uuid } from '../http/fields.ts'
import { orNull } from './service-password-schemas.ts'

const text = (description: string, example: string) => field(Type.String(), description, example)
const textOrNull = (description: string, example: string) => orNull(Type.String(), description, example)
const time = (description: string) => field(Time, description)
const timeOrNull = (description: string) => orNull(Time, description, '2026-11-20T10:15:00.000Z')
const count = (description: string, example: number) => field(Type.Integer(), description, example)
const list = (title: string, description: string, properties: TProperties) =>
  Type.Array(object(title, description, properties), { description: `${description}, latest first` })

const id = field(Uuid, 'ID')
const createdAt = time('Time of creation')
const expiresAt = time('Expiry time')
const ipAddress = textOrNull('IP address of the client', '192.0.2.1')
const assignments = field(Type.Array(Type.String()), 'Assignments', ['environment:production'])

const OwnData = object('OwnData', 'Everything that is stored about you', {
  exportedAt: time('Time of the export'),
  company: object('OwnCompany', 'Your company', {
    id,
    name: text('Name', 'Acme'),
    handle: CompanyHandle,
  }),
  account: object('OwnAccount', 'Your account', {
    id,
    kind: text('`person` or `service`', 'person'),
    email: text('Email', 'ada@acme.example'),
    name: text('Name', 'Ada Lovelace'),
    role: text('Role', 'admin'),
    assignments,
    status: text('Status', 'active'),
    emailVerifiedAt: timeOrNull('Time when the email was verified'),
    createdAt,
    invitedBy: orNull(Uuid, 'ID of the member who invited you', '01890a5d-ac96-774b-bcce-b302099a8057'),
    lastSignInAt: timeOrNull('Hour of the last sign-in'),
    sessionsOpened: count('Number of sessions opened so far', 12),
    lockedOutAt: timeOrNull('Time when wrong passwords locked the account'),
    wrongCodes: count('Number of wrong second-factor codes', 0),
    guessingToldAt: timeOrNull('Time of the last email about guessed passwords'),
    factorMissingToldAt: timeOrNull('Time of the last email about a sign-in without the second factor'),
  }),
  sessions: list('StoredSession', 'Your sessions, including ended ones', {
    id,
    kind: text('Session mode: `token` or `cookie`', 'cookie'),
    createdAt,
    lastSeenAt: time('Time of the last use'),
    expiresAt,
    endedAt: timeOrNull('Time when it was ended'),
    endReason: textOrNull('Reason why it was ended', 'logout'),
    authenticatedAt: timeOrNull('Time of the last authentication'),
    methods: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description: 'Methods of authentication',
      examples: [['pwd']],
    }),
    userAgent: textOrNull('User agent that started it', 'Mozilla/5.0'),
    ipAddress,
  }),
  secondFactors: list('StoredFactor', 'Your second factors, without secrets', {
    id,
    kind: text('`totp` or `passkey`', 'passkey'),
    name: text('Name', 'Phone'),
    createdAt,
    confirmedAt: timeOrNull('Time when it was confirmed'),
    lastUsedAt: timeOrNull('Time of the last use'),
  }),
  recoveryCodes: count('Number of unused recovery codes', 10),
  servicePasswords: list('StoredServicePassword', 'Passwords, if you are a service account', {
    hint: textOrNull('Last four characters', 'x3Yz'),
    createdAt: timeOrNull('Time of creation'),
    lastUsedAt: timeOrNull('Hour of the last use'),
  }),
  knownClients: list(
    'KnownClient',
    'Networks and browsers that you signed in from; only digests are stored',
    {
      kind: text('`network` or `device`', 'device'),
      knownUntil: time('Time when it is forgotten'),
    },
  ),
  challenges: list('StoredChallenge', 'Second steps that were started', {
    purpose: text('`sign_in`, `proof`, or `enrolment`', 'sign_in'),
    createdAt,
    expiresAt,
    ipAddress,
  }),
  emailedCodes: list('StoredCode', 'Code that was emailed to you', { expiresAt }),
  links: list('StoredLink', 'Links that were emailed to you', {
    purpose: text('`verify`, `reset`, `invite`, `confirm`, or `undo`', 'reset'),
    createdAt,
    expiresAt,
  }),
  emails: list('StoredEmail', 'Emails to you that are queued, or were recently sent', {
    kind: text('Kind', 'password_reset'),
    createdAt,
    sentAt: timeOrNull('Time when it was sent'),
    failedAt: timeOrNull('Time when sending it failed for good'),
  }),
  invitations: list('SentInvitation', 'Invitations that you sent', {
    id,
    email: text('Email of the invited person', 'bob@acme.example'),
    role: text('Role of the future member', 'analyst'),
    assignments,
    createdAt,
    expiresAt: timeOrNull('Time when the link expires; null until the email is sent'),
  }),
  signingSecrets: list('OwnSigningSecret', 'The signing secret, if you created it', {
    version: count('Version', 4),
    createdAt,
  }),
  emailChange: Type.Union(
    [
      object('PendingEmailChange', 'Pending email change', {
        email: text('New email', 'ada@new.example'),
        requestedAt: time('Time of the request'),
        expiresAt: timeOrNull('Time when the link expires; null until the email is sent'),
      }),
      Type.Null(),
    ],
    { description: 'Pending email change; null if there is none' },
  ),
  auditEntries: Type.Array(AuditEntry, {
    description:
      'All audit entries by you, then all about you, including refused sign-ins. If someone else acted, the session and IP address are null',
  }),
})

/** A stream, because the trail can be long. */
export const OwnDataReply = Type.Unsafe<Readable>(OwnData)
