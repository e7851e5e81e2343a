import { listUsers } from '../../src/company/listing-repository.ts'
import { requireCompanyName } from '../../src/company/service.ts'
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
import { type Command, limitOf, previousValidSecondsOf, userOf } from './command-line.ts'
import { readPassword } from './context.ts'

/** The options that name a user. */
const USER = { required: ['company'], optional: ['user', 'email'] } satisfies Partial<Command>

export const USER_COMMANDS: Record<string, Command> = {
  'user create': {
    required: ['company', 'email', 'role'],
    optional: ['name'],
    async run(context, { company: companyId = '', email = '', role = '', name }) {
      const password = await readPassword(context)
      const { userId, ...link } = await createUser(context, companyId, { email, role, name, password })
      return { companyId, userId, email, role, ...link }
    },
  },
  'user list': {
    required: ['company'],
    optional: ['limit'],
    async run({ db }, { company: companyId = '', ...values }) {
      await requireCompanyName(db, companyId)
      return { companyId, users: await listUsers(db, companyId, limitOf(values)) }
    },
  },
  'user show': {
    ...USER,
    async run({ db }, { company: companyId = '', ...values }) {
      return { companyId, ...(await requireUser(db, companyId, userOf(values))) }
    },
  },
  'user role': {
    required: ['company', 'role'],
    optional: ['user', 'email'],
    async run(context, { company: companyId = '', role = '', ...values }) {
      const now = context.system.now()
      const { userId, before } = await changeUserRole(context, companyId, userOf(values), role, now)
      return { companyId, userId, role, before }
    },
  },
  'user disable': {
    ...USER,
    async run(context, { company: companyId = '', ...values }) {
      const { userId } = await changeUserStatus(context, companyId, userOf(values), 'disabled')
      return { companyId, userId, status: 'disabled' }
    },
  },
  'user enable': {
    ...USER,
    async run(context, { company: companyId = '', ...values }) {
      const { userId } = await changeUserStatus(context, companyId, userOf(values), 'active')
      return { companyId, userId, status: 'active' }
    },
  },
  'user unlock': {
    ...USER,
    async run(context, { company: companyId = '', ...values }) {
      const { userId } = await unlockUser(context, companyId, userOf(values), context.system.now())
      return { companyId, userId, status: 'unlocked' }
    },
  },
  'user password': {
    required: ['company'],
    optional: ['user', 'email', 'previous-valid-seconds'],
    async run(context, { company: companyId = '', ...values }) {
      const previousValidSeconds = previousValidSecondsOf(values)
      const replacement = { previousValidSeconds, now: context.system.now() }
      return { companyId, ...(await replaceServicePassword(context, companyId, userOf(values), replacement)) }
    },
  },
  'user reset-second-factors': {
    ...USER,
    async run(context, { company: companyId = '', ...values }) {
      const { userId } = await resetSecondFactors(context, companyId, userOf(values), context.system.now())
      return { companyId, userId, status: 'reset; mail queued' }
    },
  },
  'user delete': {
    ...USER,
    async run(context, { company: companyId = '', ...values }) {
      const { userId } = await deleteUser(context, companyId, userOf(values), context.system.now())
      return { companyId, userId, status: 'deleted' }
    },
  },

  invite: {
    required: ['company', 'email', 'role'],
    async run(context, { company: companyId = '', email = '', role = '' }) {
      const invited = await invite(context, companyId, { email, role })
      return { companyId, ...invited, role, status: 'mail queued' }
    },
  },
}
