import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'
import { addProblems } from '../http/responses.ts'

/** Admits sessions whose user has the permission at this moment: it was read with the session. */
async function plugin(app: FastifyInstance, { permission }: { permission: string }): Promise<void> {
  app.addHook('onRoute', ({ schema }) => addProblems(schema, ['permission_denied']))
  app.addHook('onRequest', async ({ session }) => {
    if (!session.permissions.includes(permission)) {
      throw new Problem(
        'permission_denied',
        `This needs the permission ${permission}, which your role does not have.`,
      )
    }
  })
}

export const permissionGuard = fp(plugin, { name: 'permission-guard', dependencies: ['enrolment-guard'] })
