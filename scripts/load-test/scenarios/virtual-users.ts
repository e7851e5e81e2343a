import type { LiveSession } from '../operations/credentials.ts'
import type { Target } from '../target/target.ts'

/** Makes something for each virtual user. */
export function forEachUser<T>(users: number, make: () => T): T[] {
  return Array.from({ length: users }, make)
}

/** Divides existing sessions among virtual users, `each` for every one of them. */
export async function dealSessions(target: Target, users: number, each: number): Promise<LiveSession[][]> {
  const sessions = await target.takeSessions(users * each, 'existing')
  return Array.from({ length: users }, (_, user) => sessions.filter((_, index) => index % users === user))
}
