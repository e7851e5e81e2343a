import type { Static } from '@sinclair/typebox'
import { checkName } from '../company/checks.ts'
import { checkHandle } from '../company/handles.ts'
import { claimHandle, findCompanyNames } from '../company/handles-repository.ts'
import { updateCompany } from '../company/repository.ts'
import { noSuchCompany } from '../company/service.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Act, Actor } from '../session/acts.ts'
import { endOtherCompanySessions, lockCompany } from '../session/ending-repository.ts'
import { asManager } from './changes.ts'
import type { CompanyChangeBody } from './schemas.ts'

/** @throws Problem permission_denied, invalid_request, handle_taken, rate_limited */
export async function changeCompany(
  context: Context,
  actor: Actor,
  change: Static<typeof CompanyChangeBody>,
) {
  const { config, counters } = context
  const { companyId, companyHandle } = actor.session
  const name = change.name === undefined ? undefined : checkName('name', change.name)
  const handle = change.handle === undefined ? undefined : checkHandle(change.handle, config.cell)
  // Refused attempts count too, so that handles cannot be enumerated.
  if (handle !== undefined && handle !== companyHandle)
    await counters.consume(config.limits.handleChanges, [companyId], actor)
  const work = async ({ tx, audit }: Act) => {
    const before = await findCompanyNames(tx, companyId)
    if (!before) throw noSuchCompany()
    const after = { name: name ?? before.name, handle: handle ?? before.handle }
    const isRenamed = after.name !== before.name
    if (isRenamed) await updateCompany(tx, companyId, { name: after.name })
    const isMoved = handle !== undefined && handle !== before.handle
    if (isMoved && !(await claimHandle(tx, companyId, handle, new Date(actor.now))))
      throw new Problem(
        'handle_taken',
        'A different company has this handle, or had it recently. Choose a different handle.',
      )
    const changed = ({ name, handle }: typeof before) => ({
      ...(isRenamed && { name }),
      ...(isMoved && { handle }),
    })
    const details = { before: changed(before), after: changed(after) }
    if (isRenamed || isMoved) await audit('company_change', { details })
    return { id: companyId, ...after }
  }
  return await asManager(context, actor, work, lockCompany)
}

/** @throws Problem permission_denied */
export async function endOtherSessionsOfCompany(context: Context, actor: Actor): Promise<void> {
  const work = async ({ tx, companyId, audit }: Act) => {
    await endOtherCompanySessions(tx, companyId, actor.session.sessionId, 'ended_by_admin')
    await audit('sessions_end')
  }
  await asManager(context, actor, work, lockCompany)
}
