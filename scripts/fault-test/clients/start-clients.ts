import { openClient } from '../../kit/client.ts'
import type { Credentials } from '../../kit/operations.ts'
import type { MailRequest } from '../checker/mail.ts'
import type { Random } from '../random.ts'
import type { Company, Site } from '../target/site.ts'
import { liveAdmin, makeServer, readMember, regenerate, type Server } from './admin.ts'
import { liveBrowser } from './browser.ts'
import { noteRepeatedMails } from './mailbox.ts'
import { liveByMail } from './mailed.ts'
import { liveOwner } from './owner.ts'
import { type Actor, type Notes, note, openNotes } from './perform.ts'
import { livePerson, memberOf, type Session, signIn } from './person.ts'
import { followFeed, readSessions } from './read.ts'
import { liveSender, type Secrets } from './sender.ts'

/** People and servers of companies, who do what such people do, each by choices of its own. */

export interface Clients {
  notes: Notes
  mailRequests: MailRequest[]
  /** Rejects if one of them sees what it cannot make sense of. */
  working: Promise<void>
  /** Lets each finish what it has begun, and reads what is there then. */
  stop(): Promise<void>
}

interface World {
  company: Company
  secrets: Secrets
  servers: Server[]
  made: Server[]
}

export const PEOPLE = 8
const OWNERS = 2
const SERVERS = 2
const SENDERS = 2
/** Longer than the 10 s in which each request of the service ends. */
const DEADLINE_MS = 12_000
const CONNECTIONS = 64
const ATTEMPTS = 40

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
  const mailRequests: MailRequest[] = []
  const actor = (name: string): Actor => ({
    name,
    random: random.of(name),
    notes,
    clients,
    ending: ending.signal,
  })

  const worlds: World[] = []
  for (const company of site.companies) worlds.push(await setUp(company, actor('setup')))
  const running = worlds.flatMap(({ company, secrets, servers, made }, n) => {
    const { admin, people } = company
    const [forgetful, surfer, ...more] = people
    // What they do is new since 1.1.0.
    const owners = site.isOlder ? [] : more.slice(0, OWNERS)
    const others = more.slice(OWNERS)
    const mailbox = { mails: site.mail.mails, requests: mailRequests }
    if (!forgetful || !surfer) throw new Error('a company has people')
    const of = (what: string) => actor(`${what} of ${n + 1}`)
    return [
      ...others.map((person, i) => livePerson(of(`person ${i + 1}`), person)),
      ...servers.map(({ credentials }, i) => livePerson(of(`server ${i + 1}`), credentials, true)),
      ...Array.from({ length: SENDERS }, (_, i) => liveSender(of(`sender ${i + 1}`), secrets)),
      liveBrowser(of('browser'), surfer),
      ...owners.map((owner, i) => liveOwner(of(`owner ${i + 1}`), mailbox, owner)),
      liveAdmin(of('admin'), { admin, servers, made, secrets }),
      liveByMail(of('inviter'), { admin, forgetful, ...mailbox }),
    ]
  })
  const feed = await followFeed(actor('reader'), site, cleanup)
  const working = Promise.all(running).then(() => {})
  // `stop` tells it.
  working.catch(() => {})
  return {
    notes,
    working,
    mailRequests,
    async stop() {
      ending.abort()
      await working
      const reader = actor('reader')
      noteRepeatedMails(reader, site.mail.mails)
      for (const { servers, made, company } of worlds) {
        const session = await signInAtLast(reader, company.admin)
        for (const server of [...servers, ...made]) await readMember(reader, session, server)
      }
      await readSessions(reader)
      await feed.finish()
    },
  }
}

async function setUp(company: Company, actor: Actor): Promise<World> {
  const { companyId, admin, people } = company
  for (const person of [admin, ...people]) {
    const role = person === admin ? 'admin' : 'analyst'
    const { email, password } = person
    note(actor, 'create', { kind: 'member', id: memberOf(person), act: 'make', role, email, password })
  }
  const session = await signIn(actor, admin)
  if (!session) throw new Error('the admin cannot sign in')
  const secrets: Secrets = { companyId, shown: [] }
  await regenerate(actor, session, secrets)
  const servers: Server[] = []
  for (let n = 0; n < SERVERS; n += 1) servers.push(...(await makeServer(actor, session, companyId)))
  if (servers.length < SERVERS || secrets.shown.length === 0) throw new Error('the company cannot be set up')
  return { company, secrets, servers, made: [] }
}

async function signInAtLast(actor: Actor, credentials: Credentials): Promise<Session> {
  for (let left = ATTEMPTS; left > 0; left -= 1) {
    const session = await signIn(actor, credentials)
    if (session) return session
  }
  throw new Error('the admin cannot sign in any more')
}
