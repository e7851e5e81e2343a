import { noSuchPlan, noSuchRole } from '../company/problems.ts'
import { constraintOf } from '../database/faults.ts'

/** For `catch`: foreign keys refuse unknown roles and plans. @throws Problem invalid_request */
export function explainUnknownName(error: unknown): never {
  const constraint = constraintOf(error)
  if (constraint === 'users_role_fkey') throw noSuchRole()
  if (constraint === 'subscriptions_plan_fkey') throw noSuchPlan()
  throw error
}
