import { readPages, toReply } from '../audit/export.ts'
import type { TrailEntry } from '../audit/repository.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Actor, countChange } from '../session/acts.ts'
import { erase } from './changes.ts'
import { readOwnRows } from './own-data-repository.ts'
import { findEmailChange } from './repository.ts'

/** What a user can do about the data that the service stores about them. */

/** Reads the trail as fast as the client does: it can have any number of entries. */
export async function exportOwnData({ db, auditDb }: Context, { session, now }: Actor) {
  const { companyId, userId, email } = session
  const rows = await readOwnRows(db, companyId, { userId, email })
  const emailChange = (await findEmailChange(db, companyId, userId, new Date(now))) ?? null
  const head = JSON.stringify({ exportedAt: new Date(now), ...rows, emailChange })
  return write()

  async function* write(): AsyncGenerator<string> {
    let lead = `${head.slice(0, -1)},"auditEntries":[`
    for (const filter of [{ actor: userId }, { subject: userId }, { subject: email }])
      for await (const page of readPages(auditDb, companyId, filter)) {
        // The first filter has found the user's own acts.
        const entries = page.filter(({ actor }) => 'actor' in filter || actor !== userId)
        if (entries.length === 0) continue
        yield lead + entries.map((entry) => JSON.stringify(toOwnEntry(entry, userId))).join(',')
        lead = ','
      }
    yield lead === ',' ? ']}' : `${lead}]}`
  }
}

/** Without the session, address, and name of someone else who acted. */
function toOwnEntry(entry: TrailEntry, userId: string) {
  const { sessionId, ipAddress, details, ...reply } = toReply(entry)
  const isOwn = entry.actor === userId || (entry.actor === null && entry.subject === userId)
  const { operator: _name, ...shown } = details ?? {}
  return {
    ...reply,
    details: details && shown,
    sessionId: isOwn ? sessionId : null,
    ipAddress: isOwn ? ipAddress : null,
  }
}

/** @throws Problem permission_denied for service accounts, last_admin, session_ended, rate_limited */
export async function deleteOwnAccount(context: Context, actor: Actor): Promise<void> {
  const { session } = actor
  if (session.userKind === 'service')
    throw new Problem(
      'permission_denied',
      'Service accounts cannot delete themselves. Ask an admin of your company to do it.',
    )
  await countChange(context, actor)
  await erase(context, actor, session)
}
