import type { Readable } from 'node:stream'
import { Type } from '@fastify/type-provider-typebox'
import { field, object, Time, Uuid } from '../http/fields.ts'
import { NextCursor, pageQuery } from '../http/list-pages.ts'
import { REFUSAL_REASONS, type SignInRefusal } from './entry.ts'

/** In the order of the header row. */
export const CSV_COLUMNS = [
  'id',
  'occurredAt',
  'action',
  'outcome',
  'actor',
  'actorName',
  'subject',
  'subjectName',
  'reason',
  'count',
  'details',
  'sessionId',
  'ipAddress',
] as const

const ID = '01890a5d-ac96-774b-bcce-b302099a8057'

const filters = {
  action: Type.Optional(
    field(
      Type.String({ pattern: '^[a-z_]{1,64}$', 'x-must': 'must be an action: 1 to 64 of a-z and _' }),
      'Only this action',
      'sign_in',
    ),
  ),
  actor: Type.Optional(
    Type.String({
      pattern: '^(?:operator|[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})$',
      'x-must': 'must be the id of a member, or operator',
      description: 'Only what this member did, by id, or `operator`',
      examples: [ID],
    }),
  ),
  from: Type.Optional({ ...Time, description: 'Only what was not before', maxLength: 40 }),
  to: Type.Optional({ ...Time, description: 'Only what was before', maxLength: 40 }),
}

export const AuditQuery = Type.Object({ ...filters, ...pageQuery }, { additionalProperties: false })

const count = (description: string, example: number) => field(Type.Integer(), description, example)
const orNull = (description: string, example: string) =>
  Type.Union([Type.String(), Type.Null()], { description, examples: [example] })

const Entry = object('AuditEntry', 'One entry of the audit trail', {
  id: field(Uuid, 'The entry'),
  occurredAt: field(Time, 'When it happened; of summed sign-ins, their minute'),
  action: field(Type.String(), 'What was done; the beginning of the document lists all actions', 'user_role'),
  outcome: field(Type.String(), 'How it ended', 'done'),
  actor: orNull('Who did it: the id of a member, or `operator`; null if nobody proved who they are', ID),
  subject: orNull('What it was done to: the id of a member, an e-mail that was invited, and the like', ID),
  details: field(
    Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]),
    'What was changed',
    { before: { role: 'admin' }, after: { role: 'viewer' } },
  ),
  sessionId: orNull('The session that did it, or that it was about', ID),
  ipAddress: orNull('Where it came from; null after 90 days', '192.0.2.1'),
  reason: Type.Optional(
    Type.Unsafe<SignInRefusal>({
      type: 'string',
      enum: [...REFUSAL_REASONS],
      description: 'Why sign-ins were refused; only of those',
      examples: ['wrong_password'],
    }),
  ),
  count: Type.Optional(
    count('How many sign-ins the entry sums up; only of those that were refused or of a service account', 3),
  ),
})

const ExportedEntry = object('ExportedAuditEntry', 'One entry of the audit trail, with names', {
  ...Entry.properties,
  actorName: orNull('The name of the actor, if that is a member', 'Ada Lovelace'),
  subjectName: orNull('The name of the subject, if that is a member', 'Bob'),
})

/** A stream with one entry per line. */
export const EntryLines = Type.Unsafe<Readable>(ExportedEntry)
export const CsvLines = Type.Unsafe<Readable>(
  Type.String({
    title: 'AuditCsv',
    description: `RFC 4180, with the header row \`${CSV_COLUMNS.join(',')}\`. \`details\` is JSON. Cells that a spreadsheet would run as a formula have a ' in front`,
    examples: [CSV_COLUMNS.join(',')],
  }),
)

export const AuditReply = object('AuditReply', 'Entries of the audit trail', {
  entries: Type.Array(Entry, { description: 'The newest first' }),
  names: field(
    Type.Record(Type.String(), Type.String()),
    'Of the members who occur in these entries, by id',
    { [ID]: 'Ada Lovelace' },
  ),
  nextCursor: NextCursor,
})

export const DEFAULT_DAYS = 30

export const DailyQuery = Type.Object(
  {
    days: Type.Optional(
      field(
        Type.Integer({ minimum: 1, maximum: 90, default: DEFAULT_DAYS }),
        'How many, the last of which is today',
        30,
      ),
    ),
  },
  { additionalProperties: false },
)

export const DailyReply = object('DailyReply', 'The audit trail in sums', {
  days: Type.Array(
    object('AuditDay', 'The sums of a day', {
      date: field(Type.String({ format: 'date' }), 'The day, in UTC', '2026-11-20'),
      signIns: count('Sessions that were opened', 41),
      refusals: count('Sign-ins and changes that were refused', 3),
      changes: count('What members and operators changed', 2),
    }),
    { description: 'The oldest first, each day once' },
  ),
})
