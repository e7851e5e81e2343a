/**
 * Mail: what was acknowledged is sent, and sent once; what was refused is not sent. A mail comes twice only if a fault began or
 * lasted while it was handed over, so that nobody could note that the mail server had it (RFC 5321, section 6.1).
 */
export interface MailRequest {
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
  const byId = Map.groupBy(arrivals, ({ id }) => id)
  const twice = [...byId].flatMap(([id, copies]) =>
    copies.slice(0, -1).some(({ at }) => !isDisturbed(at))
      ? [`the mail ${id} came ${copies.length} times`]
      : [],
  )
  const came = Map.groupBy(
    [...byId.values()].flatMap(([first]) => first ?? []),
    ({ recipient }) => recipient,
  )
  const asked = Map.groupBy(requests, ({ recipient }) => recipient)
  const counts = [...asked].flatMap(([recipient, all]) => {
    const count = came.get(recipient)?.length ?? 0
    const least = all.filter(({ outcome }) => outcome === 'ok').length
    const most = all.filter(({ outcome }) => outcome !== 'refused').length
    if (count < least) return [`${recipient} got ${count} mails of ${least} that were acknowledged`]
    return count > most ? [`${recipient} got ${count} mails, and ${most} were asked for`] : []
  })
  return [...twice, ...counts]
}
