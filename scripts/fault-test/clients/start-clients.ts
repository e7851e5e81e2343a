import { openClient } from '../../kit/client.ts'
import type { Random } from '../random.ts'
import type { Company, Site } from '../target/site.ts'
import { liveAdmin, makeServer, regenerate, type Server } from './admin.ts'
import { liveBrowser } from './browser.ts'
import { noteRepeatedMails } from './mailbox.ts'
import { liveByMail } from './mailed.ts'
import { type Actor, type Notes, openNotes } from './perform.ts'
import { livePerson, signIn } from './person.ts'
import { followFeed, readSessions } from './read.ts'
import { liveSender, type Secrets } from './sender.ts'

/** People and servers of companies, who do what such people do, each by choices of its own. */

export interface Clients {
  notes: Notes
  /** Rejects if one of them sees what it cannot make sense of. */
  working: Promise<void>
  /** Lets each finish what it has begun, and reads what is there then. */
  stop(): Promise<void>
}

interface World {
  company: Company
  secrets: Secrets
  servers: Server[]
}

export const PEOPLE = 8
const SERVERS = 2
const SENDERS = 2
/** Longer than the 10 s in which each request of the service ends. */
const DEADLINE_MS = 12_000
const CONNECTIONS = 64

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
  const actor = (name: string): Actor => ({
    name,
    random: random.of(name),
    notes,
    clients,
    ending: ending.signal,
  })

  const worlds: World[] = []
  for (const company of site.companies) worlds.push(await setUp(company, actor('setup')))
  const running = worlds.flatMap(({ company, secrets, servers }, n) => {
    const { admin, people } = company
    const [forgetful, surfer, ...others] = people
    if (!forgetful || !surfer) throw new Error('a company has people')
    const of = (what: string) => actor(`${what} of ${n + 1}`)
    return [
      ...others.map((person, i) => livePerson(of(`person ${i + 1}`), person)),
      ...servers.map(({ credentials }, i) => livePerson(of(`server ${i + 1}`), credentials, true)),
      ...Array.from({ length: SENDERS }, (_, i) => liveSender(of(`sender ${i + 1}`), secrets)),
      liveBrowser(of('browser'), surfer),
      liveAdmin(of('admin'), { admin, servers, secrets }),
      liveByMail(of('inviter'), { admin, forgetful, mails: site.mail.mails }),
    ]
  })
  const feed = await followFeed(actor('reader'), site, cleanup)
  const working = Promise.all(running).then(() => {})
  // `stop` tells it.
  working.catch(() => {})
  return {
    notes,
    working,
    async stop() {
      ending.abort()
      await working
      const reader = actor('reader')
      noteRepeatedMails(reader, site.mail.mails)
      await readSessions(reader)
      await feed.finish()
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
  for (let n = 0; n < SERVERS; n += 1) servers.push(...(await makeServer(actor, session, companyId)))
  if (servers.length < SERVERS || secrets.shown.length === 0) throw new Error('the company cannot be set up')
  return { company, secrets, servers }
}
