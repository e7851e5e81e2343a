import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'

/** Lets in who has a permission now: roles and their permissions are read with the session. */
async function plugin(app: FastifyInstance, { permission }: { permission: string }): Promise<void> {
  app.addHook('onRequest', async ({ caller }) => {
    if (!caller.permissions.includes(permission)) {
      throw new Problem(
        'permission_denied',
        `This needs the permission ${permission}, which your role does not have.`,
      )
    }
  })
}

export const permissionGuard = fp(plugin, { name: 'permission-guard', dependencies: ['session-guard'] })
