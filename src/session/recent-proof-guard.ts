import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Context } from '../context.ts'
import { addProblems } from '../http/responses.ts'
import { requireRecentProof } from './session.ts'

const READS = ['GET', 'HEAD']

/** Admits changes only from sessions whose user has given a recent proof; reads from all. */
async function plugin(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  app.addHook('onRoute', ({ schema, method }) => {
    if ([method].flat().some((one) => !READS.includes(one)))
      addProblems(schema, ['reauthentication_required'])
  })
  app.addHook('onRequest', async (request) => {
    if (!READS.includes(request.method)) requireRecentProof(request, context.system.now())
  })
}

export const recentProofGuard = fp(plugin, { name: 'recent-proof-guard', dependencies: ['session-guard'] })
