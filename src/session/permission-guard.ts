import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { addProblems } from '../http/responses.ts'
import { requirePermission } from './session.ts'

/** Admits sessions whose user has the permission at this moment: it was read with the session. */
async function plugin(app: FastifyInstance, { permission }: { permission: string }): Promise<void> {
  app.addHook('onRoute', ({ schema }) => addProblems(schema, ['permission_denied']))
  app.addHook('onRequest', async ({ session }) => {
    requirePermission(session, permission)
  })
}

export const permissionGuard = fp(plugin, { name: 'permission-guard', dependencies: ['enrolment-guard'] })
