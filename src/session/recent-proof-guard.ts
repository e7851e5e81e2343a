import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { addProblems } from '../http/responses.ts'
import type { System } from '../system.ts'
import { requireRecentProof } from './session.ts'

const READS = ['GET', 'HEAD']

/** Admits changes only from sessions whose user has given a recent proof; reads from all. */
async function plugin(app: FastifyInstance, { system }: { system: Pick<System, 'now'> }): Promise<void> {
  app.addHook('onRoute', ({ schema, method }) => {
    if ([method].flat().some((one) => !READS.includes(one)))
      addProblems(schema, ['reauthentication_required'])
  })
  app.addHook('onRequest', async (request) => {
    if (!READS.includes(request.method)) requireRecentProof(request, system.now())
  })
}

export const recentProofGuard = fp(plugin, { name: 'recent-proof-guard', dependencies: ['session-guard'] })
