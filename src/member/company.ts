import { checkName } from '../company/checks.ts'
import { checkHandle } from '../company/handles.ts'
import { claimHandle, findCompanyNames, renameCompany } from '../company/handles-repository.ts'
import { noSuchCompany } from '../company/problems.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Act, Actor } from '../session/acts.ts'
import { endOtherCompanySessions, lockCompany } from '../session/ending-repository.ts'
import { asManager } from './changes.ts'

/** What admins do to their company. */

interface CompanyChange {
  name?: string
  handle?: string
}

/** A former handle signs nobody in. @throws Problem permission_denied, invalid_request, handle_taken, rate_limited */
export async function changeCompany(context: Context, actor: Actor, change: CompanyChange) {
  const { config, counters } = context
  const { companyId, companyHandle } = actor.session
  const name = change.name === undefined ? undefined : checkName('name', change.name)
  const handle = change.handle === undefined ? undefined : checkHandle(change.handle, config.cell)
  // Refused ones too, so that nobody asks long which handles there are.
  if (handle !== undefined && handle !== companyHandle)
    await counters.consume(config.limits.handleChanges, [companyId], actor)
  return await asManager(
    context,
    actor,
    async ({ tx, audit }) => {
      const before = await findCompanyNames(tx, companyId)
      if (!before) throw noSuchCompany()
      const after = { name: name ?? before.name, handle: handle ?? before.handle }
      if (after.name !== before.name) await renameCompany(tx, companyId, after.name)
      const isOther = handle !== undefined && handle !== before.handle
      if (isOther && !(await claimHandle(tx, companyId, handle, new Date(actor.now))))
        throw new Problem('handle_taken', 'Another company has this handle, or had it recently.')
      const details = changesOf(before, after)
      if (details) await audit('company_change', { details })
      return { id: companyId, ...after }
    },
    lockCompany,
  )
}

/** Without what stays as it was. */
function changesOf<Names extends object>(before: Names, after: Names) {
  const isChanged = ([key, value]: [string, unknown]) => value !== Object(before)[key]
  const changed = Object.entries(after).filter(isChanged)
  if (changed.length === 0) return undefined
  const former = changed.map(([key]) => [key, Object(before)[key]])
  return { before: Object.fromEntries(former), after: Object.fromEntries(changed) }
}

/** @throws Problem permission_denied */
export async function endOtherSessionsOfCompany(context: Context, actor: Actor): Promise<void> {
  const work = async ({ tx, companyId, audit }: Act) => {
    await endOtherCompanySessions(tx, companyId, actor.session.sessionId, 'ended_by_admin')
    await audit('sessions_end')
  }
  await asManager(context, actor, work, lockCompany)
}
