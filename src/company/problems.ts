import { constraintOf } from '../database/faults.ts'
import { invalidField, Problem } from '../errors.ts'

export function noSuchCompany(): Problem {
  return new Problem('not_found', 'There is no company with this id.')
}

export function noSuchUser(): Problem {
  return new Problem('not_found', 'The company has no such user.')
}

export function noSuchRole(): Problem {
  return invalidField('role', 'is not one of the roles: admin, analyst, developer, viewer')
}

export function noSuchPlan(): Problem {
  return invalidField('plan', 'is not one of the plans: starter, growth, enterprise')
}

export function lastAdmin(): Problem {
  return new Problem(
    'last_admin',
    'The company would be left without an active admin: make another user its admin first.',
  )
}

export function alreadyMember(): Problem {
  return new Problem('already_member', 'This e-mail belongs to a member of the company already.')
}

export function emailTaken(): Problem {
  return invalidField('email', 'belongs to a user of this company already')
}

/** For `catch`: foreign keys refuse unknown roles and plans. @throws Problem invalid_request */
export function explainUnknownName(error: unknown): never {
  const constraint = constraintOf(error)
  if (constraint === 'users_role_fkey') throw noSuchRole()
  if (constraint === 'subscriptions_plan_fkey') throw noSuchPlan()
  throw error
}
