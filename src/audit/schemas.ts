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
const CURSOR = 'WyJmM2I1YzFkMiIsIjAxODkwYTVkIl0'
const UUID = '[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}'

const filters = {
  action: Type.Optional(
    field(
      Type.String({ pattern: '^[a-z_]{1,64}$', 'x-must': 'must be an action: 1 to 64 characters of a-z _' }),
      'Only entries with this action',
      'sign_in',
    ),
  ),
  actor: Type.Optional(
    Type.String({
      pattern: `^(?:operator|${UUID})$`,
      'x-must': 'must be the ID of a member, or "operator"',
      description: 'Only entries with this actor: the ID of a member, or `operator`',
      examples: [ID],
    }),
  ),
  outcome: Type.Optional(
    field(
      Type.String({
        pattern: '^[a-z_]{1,64}$',
        'x-must': 'must be an outcome: 1 to 64 characters of a-z _',
      }),
      'Only entries with this outcome',
      'refused',
    ),
  ),
  subject: Type.Optional(
    Type.String({
      // Postgres cannot store U+0000.
      pattern: `^(?:${UUID}|[^@\\s\\u0000]{1,64}@[^@\\s\\u0000]{1,253})$`,
      'x-must': 'must be an ID, or an email',
      description:
        'Only entries with this subject: an ID, such as that of a member, or an email, which is kept for 90 days',
      examples: [ID],
    }),
  ),
  from: Type.Optional({ ...Time, description: 'Only entries at this time or later', maxLength: 40 }),
  to: Type.Optional({ ...Time, description: 'Only entries before this time', maxLength: 40 }),
}

export const AuditQuery = Type.Object({ ...filters, ...pageQuery }, { additionalProperties: false })

const count = (description: string, example: number) => field(Type.Integer(), description, example)
const orNull = (description: string, example: string) =>
  Type.Union([Type.String(), Type.Null()], { description, examples: [example] })

export const AuditEntry = object('AuditEntry', 'Audit entry', {
  id: field(Uuid, 'ID of the entry'),
  occurredAt: field(Time, 'Time of the action; for summed sign-ins, their minute'),
  action: field(Type.String(), 'Action; the introduction lists all of them', 'user_role'),
  outcome: field(Type.String(), 'Outcome of the action', 'done'),
  actor: orNull('ID of the member who acted, or `operator`; null if nobody was authenticated', ID),
  subject: orNull('Object of the action, such as the ID of a member or an invited email', ID),
  details: field(
    Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()]),
    'Details, such as the values before and after a change',
    { before: { role: 'admin' }, after: { role: 'viewer' } },
  ),
  sessionId: orNull('Session that acted, or that the action concerned', ID),
  ipAddress: orNull('IP address of the client; null after 90 days', '192.0.2.1'),
  reason: Type.Optional(
    Type.Unsafe<SignInRefusal>({
      type: 'string',
      enum: [...REFUSAL_REASONS],
      description: 'Reason why sign-ins were refused; only for refused sign-ins',
      examples: ['wrong_password'],
    }),
  ),
  count: Type.Optional(
    count('Number of sign-ins in the entry; only for refused sign-ins and for service accounts', 3),
  ),
})

const ExportedEntry = object('ExportedAuditEntry', 'Audit entry with names', {
  ...AuditEntry.properties,
  actorName: orNull('Name of the actor, if it is a member', 'Ada Lovelace'),
  subjectName: orNull('Name of the subject, if it is a member', 'Bob'),
})

/** A stream with one entry per line. */
export const EntryLines = Type.Unsafe<Readable>(ExportedEntry)
export const CsvLines = Type.Unsafe<Readable>(
  Type.String({
    title: 'AuditCsv',
    description: `RFC 4180, with the header row \`${CSV_COLUMNS.join(',')}\`. \`details\` is JSON. Cells that a spreadsheet would run as a formula start with '`,
    examples: [CSV_COLUMNS.join(',')],
  }),
)

export const AuditReply = object('AuditReply', 'Page of audit entries', {
  entries: Type.Array(AuditEntry, { description: 'Entries, newest first' }),
  names: field(Type.Record(Type.String(), Type.String()), 'Names of the members in these entries, by ID', {
    [ID]: 'Ada Lovelace',
  }),
  nextCursor: NextCursor,
})

export const DEFAULT_ENTRIES = 100

export const AuditFeedQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({
        maxLength: 1_000,
        description: '`next` of the previous page; without it, the feed begins with its oldest entry',
        examples: [CURSOR],
      }),
    ),
    limit: Type.Optional(
      field(
        Type.Integer({ minimum: 1, maximum: 1_000, default: DEFAULT_ENTRIES }),
        'Maximum number of entries',
        DEFAULT_ENTRIES,
      ),
    ),
  },
  { additionalProperties: false },
)

export const AuditFeedReply = object('AuditFeedReply', 'Page of the audit feed', {
  entries: Type.Array(AuditEntry, { description: 'Entries, oldest first' }),
  next: Type.Union([Type.String(), Type.Null()], {
    description: '`after` of the next page; null until there is an entry',
    examples: [CURSOR],
  }),
  isCaughtUp: field(Type.Boolean(), 'Whether nothing more can be returned yet', true),
})

export const DEFAULT_DAYS = 30

export const DailyQuery = Type.Object(
  {
    days: Type.Optional(
      field(
        Type.Integer({ minimum: 1, maximum: 90, default: DEFAULT_DAYS }),
        'Number of days, up to today',
        30,
      ),
    ),
  },
  { additionalProperties: false },
)

export const DailyReply = object('DailyReply', 'Audit entries by day', {
  days: Type.Array(
    object('AuditDay', 'Counts of one day', {
      date: field(Type.String({ format: 'date' }), 'Day in UTC', '2026-11-20'),
      signIns: count('Number of opened sessions', 41),
      refusals: count('Number of refused sign-ins and changes', 3),
      changes: count('Number of changes by members and operators', 2),
    }),
    { description: 'Days, oldest first, without gaps' },
  ),
})
