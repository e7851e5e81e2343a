import { listUsers } from '../../src/company/listing-repository.ts'
import { requireCompanyName } from '../../src/company/service.ts'
import { MAX_PREVIOUS_SECONDS } from '../../src/member/service-password-schemas.ts'
import {
  changeUserRole,
  changeUserStatus,
  createUser,
  deleteUser,
  invite,
  replaceServicePassword,
  requireUser,
  resetSecondFactors,
  unlockUser,
} from '../../src/operator/users.ts'
import { type Commands, limitOf, numberOf, userOf } from './command-line.ts'
import { readPassword } from './context.ts'

const USER = '--company COMPANY (--user U | --email E)'

export const USER_COMMANDS: Commands = {
  async 'user create --company COMPANY --email E --role R [--name N]'(context, companyId, values) {
    const { email = '', role = '', name } = values
    const password = await readPassword(context)
    const { userId, ...link } = await createUser(context, companyId, { email, role, name, password })
    return { companyId, userId, email, role, ...link }
  },
  async 'user list --company COMPANY [--limit L]'({ db }, companyId, values) {
    await requireCompanyName(db, companyId)
    return { companyId, users: await listUsers(db, companyId, limitOf(values)) }
  },
  async [`user show ${USER}`]({ db }, companyId, values) {
    return { companyId, ...(await requireUser(db, companyId, userOf(values))) }
  },
  async [`user role ${USER} --role R`](context, companyId, { role = '', ...values }) {
    const { userId, before } = await changeUserRole(context, companyId, userOf(values), role)
    return { companyId, userId, role, before }
  },
  async [`user disable ${USER}`](context, companyId, values) {
    const { userId } = await changeUserStatus(context, companyId, userOf(values), 'disabled')
    return { companyId, userId, status: 'disabled' }
  },
  async [`user enable ${USER}`](context, companyId, values) {
    const { userId } = await changeUserStatus(context, companyId, userOf(values), 'active')
    return { companyId, userId, status: 'active' }
  },
  async [`user unlock ${USER}`](context, companyId, values) {
    const { userId } = await unlockUser(context, companyId, userOf(values))
    return { companyId, userId, status: 'unlocked' }
  },
  async [`user password ${USER} [--previous-valid-seconds N]`](context, companyId, values) {
    const { 'previous-valid-seconds': seconds = '0' } = values
    const previousValidSeconds = numberOf('previous-valid-seconds', seconds, 0, MAX_PREVIOUS_SECONDS)
    const user = userOf(values)
    return { companyId, ...(await replaceServicePassword(context, companyId, user, previousValidSeconds)) }
  },
  async [`user reset-second-factors ${USER}`](context, companyId, values) {
    const { userId } = await resetSecondFactors(context, companyId, userOf(values))
    return { companyId, userId, status: 'reset; email queued' }
  },
  async [`user delete ${USER}`](context, companyId, values) {
    const { userId } = await deleteUser(context, companyId, userOf(values))
    return { companyId, userId, status: 'deleted' }
  },
  async 'invite --company COMPANY --email E --role R'(context, companyId, { email = '', role = '' }) {
    const invited = await invite(context, companyId, { email, role })
    return { companyId, ...invited, role, status: 'email queued' }
  },
}
