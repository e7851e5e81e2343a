import { createClient, deleteClient, finishRotation, rotateClient } from '../../src/operator/clients.ts'
import { endAllSessions, endSessionsOfCompany, readAudit } from '../../src/operator/companies.ts'
import { retireKey, rotateKeys } from '../../src/operator/keys.ts'
import { settleRestored } from '../../src/operator/restored.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { endSessionsOfUser } from '../../src/operator/users.ts'
import { listClients } from '../../src/platform/repository.ts'
import { listKeys } from '../../src/token/repository.ts'
import { type Commands, limitOf, toId } from './command-line.ts'
import { UsageError } from './context.ts'

export const PLATFORM_COMMANDS: Commands = {
  async 'sessions end (--company COMPANY [--user U] | --all)'(context, companyId, { user, all }) {
    const { now } = context
    if (Boolean(all) === Boolean(companyId) || (all && user))
      throw new UsageError('"sessions end" needs --company, or --all alone')
    if (all) return { companies: await endAllSessions(context, now), sessions: 'ended' }
    if (user === undefined) {
      await endSessionsOfCompany(context, companyId, now)
      return { companyId, sessions: 'ended' }
    }
    const userId = toId(user)
    await endSessionsOfUser(context, companyId, userId, now)
    return { companyId, userId, sessions: 'ended' }
  },
  'audit --company COMPANY [--email E] [--limit L]': ({ db }, companyId, values) =>
    readAudit(db, companyId, { email: values['email'], max: limitOf(values) }),
  'keys rotate': (context) => rotateKeys(context),
  async 'keys list'({ db }) {
    const keys = await listKeys(db)
    return {
      keys: keys.map(({ keyId, createdAt, signsFrom, revokedAt: retiredAt }) => ({
        ...{ keyId, createdAt, signsFrom, retiredAt },
      })),
    }
  },
  'keys retire KID': (context, _, { kid = '' }) => retireKey(context, kid, context.now),
  'client create --name N --scope SCOPES': (context, _, { name = '', scope = '' }) =>
    createClient(context, { name, scopes: scope.split(',') }, context.now),
  'client list': async ({ db }) => ({ clients: await listClients(db) }),
  'client rotate CLIENT [--finish]': (context, _, { client, finish }) =>
    (finish ? finishRotation : rotateClient)(context, toId(client), context.now),
  async 'client delete CLIENT'(context, _, { client }) {
    const id = toId(client)
    await deleteClient(context, id, context.now)
    return { id, status: 'deleted' }
  },
  restored: (context) => settleRestored(context, context.now),
  prune: (context) => pruneAcrossCompanies(context, context.now),
}
