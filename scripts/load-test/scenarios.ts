import { ingest } from '../kit/events.ts'
import {
  checkSession,
  introspect,
  logout,
  type Operation,
  refresh,
  signIn,
  verify,
} from '../kit/operations.ts'
import type { Cryptography } from './cryptography.ts'
import type { Gatehouse, Service } from './services.ts'
import type { Statement } from './statements.ts'

export interface Scenario {
  about: string
  /** Number of virtual users, each with one connection. */
  connections: number
  /** An operation for each virtual user, for a round of this length. */
  operations(service: Service, users: number, seconds: number): Promise<Operation[]>
  /** The work that an operation needs at least, and how many times. Every operation also needs an HTTP response. */
  statements?: Partial<Record<Statement, number>>
  cryptography?: Partial<Record<Cryptography, number>>
  /** Whether it runs on gatehouse's platform listener. The plain service does not have one. */
  isOfPlatform?: boolean
}

const SESSIONS_EACH = 16
/** More than can end in a second, so that a round does not run out of sessions. */
const LOGOUTS_PER_SECOND = 6_000

/** Each virtual user has sessions that nobody else uses. */
async function eachWithSessions(
  service: Service,
  users: number,
  act: (sessions: Awaited<ReturnType<Service['newSessions']>>) => Operation,
): Promise<Operation[]> {
  const sessions = await service.newSessions(users * SESSIONS_EACH)
  return each(users, (user) => act(sessions.slice(user * SESSIONS_EACH, (user + 1) * SESSIONS_EACH)))
}

const each = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index))

/** All scenarios by the name that --scenario takes. */
export const SCENARIOS: Record<string, Scenario> = {
  login: {
    about: 'sign-in with email and password',
    connections: 8,
    operations: async ({ people }, users) => each(users, () => signIn(people)),
    // The account; the session and its audit entry.
    statements: { 'look-up': 1, insert: 2 },
    cryptography: { argon2id: 1, 'ES256 signature': 1, 'HMAC of a token': 1 },
  },
  session: {
    about:
      'an authenticated request with each of 16 tokens in turn; session and permissions are read each time',
    connections: 64,
    operations: (service, users) => eachWithSessions(service, users, checkSession),
    statements: { 'look-up': 1 },
  },
  refresh: {
    about: 'each virtual user rotates the tokens of 16 sessions in turn',
    connections: 64,
    operations: (service, users) => eachWithSessions(service, users, refresh),
    statements: { update: 1 },
    // The refresh token that comes is verified, and the next one signed.
    cryptography: { 'ES256 signature': 1, 'HMAC of a token': 2 },
  },
  logout: {
    about: 'each virtual user ends one session after the other',
    connections: 16,
    async operations(service, users, seconds) {
      const sessions = await service.newSessions(Math.ceil(seconds * LOGOUTS_PER_SECOND))
      return each(users, () => logout(sessions))
    },
    // The insert is that of the audit entry.
    statements: { update: 1, insert: 1 },
    cryptography: { 'ES256 verification': 1 },
  },
  ingest: {
    about: 'one signed event of about 500 bytes in a request',
    connections: 64,
    operations: async ({ sender }, users) => each(users, () => ingest(sender)),
    statements: { insert: 1 },
    cryptography: { 'HMAC of an event': 1 },
  },
  'ingest-batch': {
    about: '100 signed events in a request',
    connections: 16,
    operations: async ({ sender }, users) => each(users, () => ingest(sender, 100)),
    statements: { 'insert of 100 rows': 1 },
    cryptography: { 'HMAC of 100 events': 1 },
  },
  introspect: {
    about: 'a service of the platform asks about each of 16 access tokens in turn',
    connections: 64,
    isOfPlatform: true,
    operations: (service, users) =>
      eachWithSessions(service, users, (sessions) =>
        introspect(sessions, (service as Gatehouse).platformClient),
      ),
  },
  verify: {
    about: 'a reverse proxy asks whether requests with each of 16 access tokens in turn may pass',
    connections: 64,
    isOfPlatform: true,
    operations: (service, users) => eachWithSessions(service, users, verify),
  },
}
