import { createClient, deleteClient, finishRotation, rotateClient } from '../../src/operator/clients.ts'
import { endAllSessions, endSessionsOfCompany, readAudit } from '../../src/operator/companies.ts'
import { retireKey, rotateKeys } from '../../src/operator/keys.ts'
import { settleRestored } from '../../src/operator/restored.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { endSessionsOfUser } from '../../src/operator/users.ts'
import { listClients } from '../../src/platform/repository.ts'
import { listKeys } from '../../src/token/repository.ts'
import { type Command, limitOf } from './command-line.ts'
import { migrateAlone } from './context.ts'
import { UsageError } from './usage.ts'

export const PLATFORM_COMMANDS: Record<string, Command> = {
  migrate: { runAlone: migrateAlone },

  'sessions end': {
    optional: ['company', 'user', 'all'],
    async run(context, { company: companyId, user: userId, all = false }) {
      const now = context.system.now()
      if (all === (companyId !== undefined) || (all && userId !== undefined))
        throw new UsageError('"sessions end" needs --company, or --all alone')
      if (companyId === undefined) return { companies: await endAllSessions(context, now), sessions: 'ended' }
      if (userId === undefined) {
        await endSessionsOfCompany(context, companyId, now)
        return { companyId, sessions: 'ended' }
      }
      await endSessionsOfUser(context, companyId, userId, now)
      return { companyId, userId, sessions: 'ended' }
    },
  },

  audit: {
    required: ['company'],
    optional: ['email', 'limit'],
    run: async ({ db }, { company: companyId = '', email, ...values }) =>
      await readAudit(db, companyId, { email, max: limitOf(values) }),
  },

  'keys rotate': { run: async (context) => ({ ...(await rotateKeys(context)) }) },
  'keys retire': {
    takes: 'key',
    run: async (context, _values, keyId) => ({
      ...(await retireKey(context, keyId, context.system.now())),
    }),
  },
  'keys list': {
    run: async ({ db }) => ({
      keys: (await listKeys(db)).map(({ keyId, createdAt, signsFrom, revokedAt }) => ({
        keyId,
        createdAt,
        signsFrom,
        retiredAt: revokedAt,
      })),
    }),
  },

  'client create': {
    required: ['name', 'scope'],
    run: async (context, { name = '', scope = '' }) =>
      await createClient(context, { name, scopes: scope.split(',') }, context.system.now()),
  },
  'client list': { run: async ({ db }) => ({ clients: await listClients(db) }) },
  'client rotate': {
    takes: 'client',
    optional: ['finish'],
    async run(context, { finish = false }, id) {
      const now = context.system.now()
      return finish ? { ...(await finishRotation(context, id, now)) } : await rotateClient(context, id, now)
    },
  },
  'client delete': {
    takes: 'client',
    async run(context, _values, id) {
      await deleteClient(context, id, context.system.now())
      return { id, status: 'deleted' }
    },
  },

  restored: {
    run: async (context) => ({ ...(await settleRestored(context, context.system.now())) }),
  },

  prune: { run: async (context) => ({ ...(await pruneAcrossCompanies(context, context.system.now())) }) },
}
