/**
 * Mail: what was acknowledged is sent, and sent once; what was refused is not sent. A mail comes twice only if a fault began or
 * lasted while it was handed over, so that nobody could note that the mail server had it (RFC 5321, section 6.1).
 */
export interface MailRequest {
  /** An e-mail, and what its link is for; only a space follows where there is none. */
  recipient: string
  outcome: 'ok' | 'refused' | 'unknown'
}

export interface Arrival {
  recipient: string
  /** Of its `Message-ID`. */
  id: string
  at: number
}

/** From its begin until all is as before. */
export interface Period {
  from: number
  to: number
}

/** How long after it was accepted a mail may need to be noted as sent. */
const NOTED_MS = 1_000

export function checkMail(
  requests: readonly MailRequest[],
  arrivals: readonly Arrival[],
  faults: readonly Period[],
): string[] {
  const isDisturbed = (at: number) => faults.some(({ from, to }) => from <= at + NOTED_MS && at <= to)
  const twice = [...Map.groupBy(arrivals, ({ id }) => id)].flatMap(([id, copies]) =>
    copies.slice(0, -1).some(({ at }) => !isDisturbed(at))
      ? [`the mail ${id} came ${copies.length} times`]
      : [],
  )
  const tooMany = count(requests, arrivals).flatMap(({ recipient, came, asked }) =>
    came > asked ? [`${recipient} got ${came} mails, and ${asked} were asked for`] : [],
  )
  const asked = new Set(requests.map(({ recipient }) => recipient))
  const unasked = [...new Set(arrivals.map(({ recipient }) => recipient))]
    // Of a notice, which has no link, not every client knows.
    .filter((recipient) => !asked.has(recipient) && !recipient.endsWith(' '))
    .map((recipient) => `${recipient} got a mail, and asked for none`)
  return [...twice, ...findMissing(requests, arrivals), ...tooMany, ...unasked]
}

/** What was acknowledged and has not come. */
export function findMissing(requests: readonly MailRequest[], arrivals: readonly Arrival[]): string[] {
  return count(requests, arrivals).flatMap(({ recipient, came, acknowledged }) =>
    came < acknowledged ? [`${recipient} got ${came} mails of ${acknowledged} that were acknowledged`] : [],
  )
}

/** Of each recipient; a mail that comes twice is one. */
function count(requests: readonly MailRequest[], arrivals: readonly Arrival[]) {
  const ids = Map.groupBy(arrivals, ({ recipient }) => recipient)
  return [...Map.groupBy(requests, ({ recipient }) => recipient)].map(([recipient, all]) => ({
    recipient,
    came: new Set(ids.get(recipient)?.map(({ id }) => id)).size,
    acknowledged: all.filter(({ outcome }) => outcome === 'ok').length,
    asked: all.filter(({ outcome }) => outcome !== 'refused').length,
  }))
}
