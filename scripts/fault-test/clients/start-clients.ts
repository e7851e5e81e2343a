import { openClient } from '../../kit/client.ts'
import type { Random } from '../random.ts'
import type { Site } from '../target/site.ts'
import { liveAdmin, liveInviter, noteRepeatedMails } from './admin.ts'
import { type Actor, type Notes, openNotes } from './perform.ts'
import { livePerson, use } from './person.ts'
import { followFeed } from './read.ts'
import { liveSender, type Secrets } from './sender.ts'

/** Each client chooses its actions at random. */
export interface Clients {
  notes: Notes
  /** Rejects after a response that makes no sense. */
  working: Promise<unknown>
  stop(): Promise<void>
}

const CONNECTIONS = 64
/** The service ends each request within 10 s. */
const DEADLINE_MS = 12_000

export function startClients(site: Site, random: Random, cleanup: AsyncDisposableStack): Clients {
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
  const running = site.companies.flatMap(({ admin, people }, n) => {
    const of = (what: string) => actor(`${what} of ${n + 1}`)
    const secrets: Secrets = { companyId: admin.companyId, shown: [] }
    return [
      ...people.map((one, i) => livePerson(of(`person ${i + 1}`), one)),
      ...['sender 1', 'sender 2'].map((name) => liveSender(of(name), secrets)),
      liveAdmin(of('admin'), admin, secrets),
      liveInviter(of('inviter'), admin, site.mails),
    ]
  })
  const reader = actor('reader')
  const finishFeed = followFeed(reader, site, cleanup)
  const working = Promise.all(running)
  // `stop` rejects with its error.
  working.catch(() => {})
  return {
    notes,
    working,
    async stop() {
      ending.abort()
      await working
      noteRepeatedMails(reader, site.mails)
      for (const session of notes.sessions) await use(reader, session)
      await finishFeed()
    },
  }
}
