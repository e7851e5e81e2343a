import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { Operation } from './drive.ts'
import * as operations from './operations.ts'
import { openClient } from './operations.ts'
import { type Target, UsageError } from './target.ts'

/** The scenarios: who does what to which service, and what that is held against in the same run. */

export interface Trial {
  about: string
  connections: number
  /** What the result is divided by: a limit of the machine, or the same load without what disturbs it. */
  against?: { name: string; compare: 'rate' | 'p99' }
  /** Operations count for this many events. */
  events?: number
  open(context: Context): Promise<OpenTrial>
}

export interface OpenTrial {
  target: Target
  /** What the virtual users do in a round of that length. */
  operations(seconds: number): Promise<Operation[]>
  against?: Operation[]
  /** Starts what disturbs them; returns how to end it, with a sentence on what it did. */
  disturb?(): Promise<() => Promise<string>>
  close(): Promise<void>
}

export interface Context {
  connections: number
  /** The service with that many sessions, or as many as was asked for; started when first needed. */
  target(sessions?: number): Promise<Target>
  /** Whether services are started by this run, and not joined. */
  ownsTarget: boolean
  scaleSessions: number
}

const SMALL = 10_000
const FLOOD_CLIENTS = 200
/** More than can end in a second, so that a round does not run out of sessions; a long one may, and ends then. */
const LOGOUTS_PER_SECOND = 6_000
const MAX_LOGOUTS = 200_000

const forEach = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** Deals sessions out to virtual users. */
async function deal(target: Target, users: number, each: number) {
  const sessions = await target.takeSessions(users * each, 'existing')
  return forEach(users, (user) => sessions.filter((_, index) => index % users === user))
}

async function openWith(
  { target, connections }: Context,
  make: (
    target: Target,
    client: operations.Client,
  ) => Promise<Omit<OpenTrial, 'target' | 'close'> & { close?(): Promise<void> }>,
): Promise<OpenTrial> {
  const chosen = await target()
  const client = openClient(chosen.url, connections)
  const made = await make(chosen, client)
  return {
    ...made,
    target: chosen,
    async close() {
      await made.close?.()
      await client.close()
    },
  }
}

/** The admin alone may make the secret that events are signed with. */
async function makeSigningKey({ admin }: Target, client: operations.Client): Promise<Buffer> {
  const secret = process.env['SIGNING_SECRET']
  if (secret) return operations.toSigningKey(secret)
  return await operations.newSigningKey(client, await operations.openSession(client, admin))
}

/** Single statements straight through pg; none where the database is not known. */
async function updates({ databaseUrl, admin }: Target, connections: number) {
  if (!databaseUrl) return {}
  const ids = await operations.prepareTables(databaseUrl, admin.companyId)
  const limit = await operations.singleRowUpdates(databaseUrl, admin.companyId, ids, connections)
  return { against: limit.operations, close: limit.close }
}

async function inserts({ databaseUrl, admin }: Target, connections: number, batch: number) {
  if (!databaseUrl) return {}
  await operations.prepareTables(databaseUrl, admin.companyId)
  const limit = await operations.eventInserts(databaseUrl, admin.companyId, connections, batch)
  return { against: limit.operations, close: limit.close }
}

/** Clients that sign in without end, in a process of their own. */
async function flood({ url, people }: Target): Promise<() => Promise<string>> {
  const child = fork(join(import.meta.dirname, 'flood.ts'), {
    env: {
      PATH: process.env['PATH'],
      TARGET_URL: url,
      SIGN_IN: JSON.stringify(people[0]),
      CLIENTS: String(FLOOD_CLIENTS),
    },
    detached: true,
  })
  let answered: Record<string, number> = {}
  child.on('message', (message: Record<string, number>) => {
    answered = message
  })
  const ended = once(child, 'exit').then(([code]): never => {
    throw new Error(`the clients that sign in ended with status ${code}`)
  })
  await Promise.race([once(child, 'message'), ended])
  return async () => {
    // Without them until the end, what was measured is not what it says.
    if (!child.kill('SIGKILL')) await ended
    await ended.catch(() => {})
    const counts = Object.entries(answered).map(([status, count]) => `${count} × ${status}`)
    return `${FLOOD_CLIENTS} clients signed in meanwhile: ${counts.join(', ')}`
  }
}

const flooded = (
  about: string,
  make: (client: operations.Client, target: Target, connections: number) => Promise<Operation[]>,
): Trial => ({
  about,
  connections: 64,
  against: { name: 'the same without sign-ins', compare: 'p99' },
  open: (context) =>
    openWith(context, async (target, client) => {
      const users = await make(client, target, context.connections)
      return { operations: async () => users, against: users, disturb: () => flood(target) }
    }),
})

export const TRIALS: Record<string, Trial> = {
  login: {
    about: 'sign-in with e-mail address and password',
    connections: 8,
    against: { name: 'raw argon2id', compare: 'rate' },
    open: (context) =>
      openWith(context, async ({ people }, client) => {
        const users = forEach(context.connections, () => operations.signIn(client, people))
        return { operations: async () => users, against: await operations.rawArgon2(context.connections) }
      }),
  },

  session: {
    about: 'an authenticated call with each of 16 tokens in turn; session and permissions are read each time',
    connections: 64,
    against: { name: 'smallest Fastify answer', compare: 'rate' },
    open: (context) =>
      openWith(context, async (target, client) => {
        const users = (await deal(target, context.connections, 16)).map((sessions) =>
          operations.checkSession(client, sessions),
        )
        const server = spawn(process.execPath, [join(import.meta.dirname, 'smallest-answer.ts')], {
          stdio: ['pipe', 'pipe', 'inherit'],
          detached: true,
        })
        const lines = createInterface({ input: server.stdout ?? Readable.from([]) })
        const [url] = await once(lines, 'line')
        const smallest = openClient(url, context.connections)
        return {
          operations: async () => users,
          against: operations.smallestAnswer(smallest, context.connections),
          async close() {
            await smallest.close()
            server.kill()
          },
        }
      }),
  },

  refresh: {
    about: 'each virtual user rotates the tokens of its sessions in turn',
    connections: 64,
    against: { name: 'single-row updates', compare: 'rate' },
    open: (context) =>
      openWith(context, async (target, client) => {
        const users = (await deal(target, context.connections, 100)).map((sessions) =>
          operations.refresh(client, sessions),
        )
        return { operations: async () => users, ...(await updates(target, context.connections)) }
      }),
  },

  logout: {
    about: 'each virtual user ends one session after the other',
    connections: 16,
    against: { name: 'single-row updates', compare: 'rate' },
    open: (context) =>
      openWith(context, async (target, client) => ({
        async operations(seconds) {
          const count = Math.ceil(seconds * (target.databaseUrl ? LOGOUTS_PER_SECOND : 50))
          const sessions = await target.takeSessions(Math.min(count, MAX_LOGOUTS), 'new')
          return forEach(context.connections, () => operations.logout(client, sessions))
        },
        ...(await updates(target, context.connections)),
      })),
  },

  ingest: {
    about: 'one signed event of about 500 bytes a request',
    connections: 64,
    against: { name: 'single-row inserts', compare: 'rate' },
    open: (context) =>
      openWith(context, async (target, client) => {
        const key = await makeSigningKey(target, client)
        const users = forEach(context.connections, () =>
          operations.ingest(client, target.admin.companyId, key),
        )
        return { operations: async () => users, ...(await inserts(target, context.connections, 1)) }
      }),
  },

  'ingest-batch': {
    about: '100 signed events a request',
    connections: 16,
    events: 100,
    against: { name: 'inserts of 100 rows', compare: 'rate' },
    open: (context) =>
      openWith(context, async (target, client) => {
        const key = await makeSigningKey(target, client)
        const users = forEach(context.connections, () =>
          operations.ingest(client, target.admin.companyId, key, 100),
        )
        return { operations: async () => users, ...(await inserts(target, context.connections, 100)) }
      }),
  },

  mix: {
    about: "a day's traffic: 60 % events, 35 % session checks, 4.9 % refreshes, 0.1 % sign-ins",
    connections: 64,
    open: (context) =>
      openWith(context, async (target, client) => {
        const key = await makeSigningKey(target, client)
        const dealt = await deal(target, context.connections, 16)
        const users = dealt.map((sessions) =>
          operations.mixed([
            { share: 0.6, operation: operations.ingest(client, target.admin.companyId, key) },
            { share: 0.35, operation: operations.checkSession(client, sessions) },
            { share: 0.049, operation: operations.refresh(client, sessions) },
            { share: 0.001, operation: operations.signIn(client, target.people) },
          ]),
        )
        return { operations: async () => users }
      }),
  },

  'refresh-flood': flooded(
    'refreshes while 200 clients sign in over and over',
    async (client, target, connections) =>
      (await deal(target, connections, 100)).map((sessions) => operations.refresh(client, sessions)),
  ),

  'session-flood': flooded(
    'session checks while 200 clients sign in over and over',
    async (client, target, connections) =>
      (await deal(target, connections, 16)).map((sessions) => operations.checkSession(client, sessions)),
  ),

  scale: {
    about: 'refreshes with many sessions, 5 million unless --sessions says otherwise',
    connections: 64,
    against: { name: `refreshes with ${SMALL} sessions`, compare: 'p99' },
    async open({ connections, target, scaleSessions, ownsTarget }) {
      if (!ownsTarget) throw new UsageError('`scale` starts two services of its own; leave out --url.')
      const many = await target(scaleSessions)
      const few = await target(SMALL)
      const [client, fewClient] = [many, few].map(({ url }) => openClient(url, connections))
      if (!client || !fewClient) throw new Error('two services have two clients')
      const refreshes = async (of: Target, through: operations.Client) =>
        (await deal(of, connections, 100)).map((sessions) => operations.refresh(through, sessions))
      const users = await refreshes(many, client)
      return {
        target: many,
        operations: async () => users,
        against: await refreshes(few, fewClient),
        async close() {
          await client.close()
          await fewClient.close()
        },
      }
    },
  },
}

/** What runs when no scenario is named. */
export const DAILY = ['login', 'session', 'refresh', 'logout', 'ingest', 'ingest-batch', 'mix']
