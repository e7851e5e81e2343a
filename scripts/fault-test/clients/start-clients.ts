import { openClient } from '../../kit/client.ts'
import type { Credentials } from '../../kit/operations.ts'
import type { Random } from '../random.ts'
import type { Company, Site } from '../target/site.ts'
import { createServer, liveAdmin, regenerate, type Server } from './admin.ts'
import { liveInviter, noteRepeatedMails } from './inviter.ts'
import { type Actor, type Notes, openNotes } from './perform.ts'
import { livePerson, signIn } from './person.ts'
import { followFeed, readSessions } from './read.ts'
import { liveSender, type Secrets } from './sender.ts'

/** People and servers of companies. Each chooses at random what it does next. */
export interface Clients {
  notes: Notes
  /** Rejects if one of them gets an answer that makes no sense. */
  working: Promise<void>
  /** Lets each finish what it has begun, and then reads what is there. */
  stop(): Promise<void>
}

interface World {
  company: Company
  secrets: Secrets
  servers: Server[]
}

const SERVERS = 2
const SENDERS = 2
const CONNECTIONS = 64
/** Longer than the 10 s in which each request of the service ends. */
const DEADLINE_MS = 12_000

/** Sets the companies up, and starts. */
export async function startClients(
  site: Site,
  random: Random,
  cleanup: AsyncDisposableStack,
): Promise<Clients> {
  const clients = site.urls.map((url) => {
    const client = openClient(url, { connections: CONNECTIONS, deadlineMs: DEADLINE_MS })
    cleanup.defer(() => client.close())
    return client
  })
  const ending = new AbortController()
  cleanup.defer(() => ending.abort())
  const notes = openNotes()
  const actor = (name: string): Actor => {
    return { name, random: random.of(name), notes, clients, ending: ending.signal }
  }

  const worlds: World[] = []
  for (const company of site.companies) worlds.push(await setUp(company, actor('setup')))
  const running = worlds.flatMap(({ company: { admin, people }, secrets, servers }, n) => {
    const of = (what: string) => actor(`${what} of ${n + 1}`)
    const live = (what: string) => (one: Credentials, i: number) => livePerson(of(`${what} ${i + 1}`), one)
    return [
      ...people.map(live('person')),
      ...servers.map(({ credentials }) => credentials).map(live('server')),
      ...Array.from({ length: SENDERS }, (_, i) => liveSender(of(`sender ${i + 1}`), secrets)),
      liveAdmin(of('admin'), { admin, servers, secrets }),
      liveInviter(of('inviter'), admin, site.mails),
    ]
  })
  const reader = actor('reader')
  const finishFeed = followFeed(reader, site, cleanup)
  const working = Promise.all(running).then(() => {})
  // `stop` rejects with its error.
  working.catch(() => {})
  return {
    notes,
    working,
    async stop() {
      ending.abort()
      await working
      noteRepeatedMails(reader, site.mails)
      await readSessions(reader)
      await finishFeed()
    },
  }
}

async function setUp(company: Company, actor: Actor): Promise<World> {
  const { companyId, admin } = company
  const session = await signIn(actor, admin)
  if (!session) throw new Error('the admin cannot sign in')
  const secrets: Secrets = { companyId, shown: [] }
  await regenerate(actor, session, secrets)
  const servers: Server[] = []
  for (let n = 0; n < SERVERS; n += 1) servers.push(await createServer(actor, session, companyId))
  return { company, secrets, servers }
}
