import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'
import { addProblems } from '../http/responses.ts'
import { isHeld } from './session.ts'

/** Admits sessions that meet the policy of their company on second factors, at this moment (ASVS 6.3.3). */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', ({ schema }) => addProblems(schema, ['second_factor_enrolment_required']))
  app.addHook('onRequest', async ({ session }) => {
    if (!isHeld(session)) return
    throw new Problem(
      'second_factor_enrolment_required',
      session.secondFactors.length === 0
        ? 'Your company asks for a second factor: add one under /auth/second-factors.'
        : 'Your company asks for a second factor: prove yours at /auth/reauthenticate.',
    )
  })
}

export const enrolmentGuard = fp(plugin, { name: 'enrolment-guard', dependencies: ['session-guard'] })
