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
  /** One operation per virtual user, for a round of this length. */
  operations(service: Service, users: number, seconds: number): Promise<Operation[]>
  /** The least work of an operation, with counts. Every operation also needs an HTTP response. */
  statements?: Partial<Record<Statement, number>>
  cryptography?: Partial<Record<Cryptography, number>>
  /** On gatehouse's platform listener, which the plain service does not have. */
  isOfPlatform?: boolean
}

const SESSIONS_EACH = 16
/** More than can end per second, so that a round does not run out of sessions. */
const LOGOUTS_PER_SECOND = 6_000

/** Each virtual user has its own sessions. */
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

export const SCENARIOS: Record<string, Scenario> = {
  login: {
    about: 'sign-in with email and password',
    connections: 8,
    operations: async ({ people }, users) => each(users, () => signIn(people)),
    // Reads the account; inserts the session and its audit entry.
    statements: { 'look-up': 1, insert: 2 },
    cryptography: { argon2id: 1, 'ES256 signature': 1, 'HMAC of a token': 1 },
  },
  session: {
    about: 'authenticated requests with 16 tokens in turn, each reading session and permissions',
    connections: 64,
    operations: (service, users) => eachWithSessions(service, users, checkSession),
    statements: { 'look-up': 1 },
  },
  refresh: {
    about: 'token rotation of 16 sessions in turn per virtual user',
    connections: 64,
    operations: (service, users) => eachWithSessions(service, users, refresh),
    statements: { update: 1 },
    // Verifies the refresh token, and signs the next one.
    cryptography: { 'ES256 signature': 1, 'HMAC of a token': 2 },
  },
  logout: {
    about: 'logout of one session after the other per virtual user',
    connections: 16,
    async operations(service, users, seconds) {
      const sessions = await service.newSessions(Math.ceil(seconds * LOGOUTS_PER_SECOND))
      return each(users, () => logout(sessions))
    },
    // Inserts the audit entry.
    statements: { update: 1, insert: 1 },
    cryptography: { 'ES256 verification': 1 },
  },
  ingest: {
    about: 'one signed event of about 500 bytes per request',
    connections: 64,
    operations: async ({ sender }, users) => each(users, () => ingest(sender)),
    statements: { insert: 1 },
    cryptography: { 'HMAC of an event': 1 },
  },
  'ingest-batch': {
    about: '100 signed events per request',
    connections: 16,
    operations: async ({ sender }, users) => each(users, () => ingest(sender, 100)),
    statements: { 'insert of 100 rows': 1 },
    cryptography: { 'HMAC of 100 events': 1 },
  },
  introspect: {
    about: 'introspection of 16 access tokens in turn',
    connections: 64,
    isOfPlatform: true,
    operations: (service, users) =>
      eachWithSessions(service, users, (sessions) =>
        introspect(sessions, (service as Gatehouse).platformClient),
      ),
  },
  verify: {
    about: 'forward authentication with 16 access tokens in turn',
    connections: 64,
    isOfPlatform: true,
    operations: (service, users) => eachWithSessions(service, users, verify),
  },
}
