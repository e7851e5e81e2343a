import { endSessionsOfCompany, readAudit } from '../../src/operator/companies.ts'
import {
  createClient,
  deleteClient,
  endAllSessions,
  finishRotation,
  retireKey,
  rotateClient,
  rotateKeys,
  settleRestored,
} from '../../src/operator/platform.ts'
import { pruneAcrossCompanies } from '../../src/operator/retention.ts'
import { endSessionsOfUser } from '../../src/operator/users.ts'
import { listClients } from '../../src/platform/repository.ts'
import { listKeys } from '../../src/token/repository.ts'
import { type Commands, limitOf, toId } from './command-line.ts'
import { UsageError } from './context.ts'

export const PLATFORM_COMMANDS: Commands = {
  async 'sessions end (--company COMPANY [--user U] | --all)'(context, companyId, { user, all }) {
    if (Boolean(all) === Boolean(companyId) || (all && user))
      throw new UsageError('"sessions end" needs either --company or --all. --user needs --company.')
    if (all) return { companies: await endAllSessions(context), sessions: 'ended' }
    if (user === undefined) {
      await endSessionsOfCompany(context, companyId)
      return { companyId, sessions: 'ended' }
    }
    const userId = toId(user)
    await endSessionsOfUser(context, companyId, userId)
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
  'keys retire KID': (context, _, { kid = '' }) => retireKey(context, kid),
  'client create --name N --scope SCOPES': (context, _, { name = '', scope = '' }) =>
    createClient(context, { name, scopes: scope.split(',') }),
  'client list': async ({ db }) => ({ clients: await listClients(db) }),
  'client rotate CLIENT [--finish]': (context, _, { client, finish }) =>
    (finish ? finishRotation : rotateClient)(context, toId(client)),
  async 'client delete CLIENT'(context, _, { client }) {
    const id = toId(client)
    await deleteClient(context, id)
    return { id, status: 'deleted' }
  },
  async restored(context) {
    // On the embedded database, it would succeed without a restored backup.
    if (!context.config.databaseUrl)
      throw new UsageError('DATABASE_URL: must be set to the URL of the restored database.')
    return await settleRestored(context)
  },
  prune: (context) => pruneAcrossCompanies(context, context.system.now()),
}
