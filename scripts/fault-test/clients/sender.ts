import { senderOf, signedRequest } from '../../kit/events.ts'
import type { Part } from '../checker/history.ts'
import { type Actor, type Ask, atAll, perform, repeat } from './perform.ts'

/** Sends events: one or many, repeatedly, to all instances at the same time, and sometimes with new content. */

/** The newest is last. */
export interface Secrets {
  companyId: string
  shown: string[]
}

interface Event {
  id: string
  content: string
}

const MOST = 20

export async function liveSender(actor: Actor, secrets: Secrets): Promise<void> {
  const { random } = actor
  let sent: Event[] = []
  await repeat(actor, async () => {
    const choice = random.below(10)
    if (choice === 0) sent = sent.map(({ id }) => ({ id, content: random.word(8) }))
    else if (choice > 3) {
      const count = choice < 7 ? 1 : 1 + random.below(MOST)
      sent = Array.from({ length: count }, () => ({ id: random.word(20), content: random.word(8) }))
    }
    if (sent.length > 0) await sendEvents(actor, secrets, sent)
  })
}

async function sendEvents(actor: Actor, { companyId, shown }: Secrets, events: Event[]): Promise<void> {
  const { random } = actor
  // Sometimes the previous one.
  const secret = shown.at(random.isOneIn(10) ? -2 : -1)
  if (secret === undefined) return
  const all = events.map(({ id, content }) => ({ id, type: 'fault.tested', data: { content } }))
  const [first] = all
  const json = first && all.length === 1 ? first : { events: all }
  const signed = signedRequest(senderOf(companyId, secret), random.word(20), JSON.stringify(json))
  const ask: Ask = {
    what: 'POST /events/ingest',
    headers: signed.headers ?? {},
    json,
    isAnswer: ({ accepted = 0, duplicates = 0 }) => accepted + duplicates === events.length,
    parts: ({ code, reply: { accepted, duplicates, detail = '' } }) => {
      const isNew = accepted === events.length ? true : duplicates === events.length ? false : null
      return [
        { kind: 'secret', id: companyId, act: 'sign', secret },
        ...events.map(({ id, content }): Part => {
          const isNamed = code === 'event_id_conflict' && detail.includes(id)
          return { kind: 'event', id: `${companyId} ${id}`, act: 'send', content, isNew, isNamed }
        }),
      ]
    },
  }
  if (random.isOneIn(4)) await atAll(actor, (at) => perform(actor, { ...ask, at }))
  else await perform(actor, ask)
}
