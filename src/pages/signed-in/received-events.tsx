import { type UseQueryResult, useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { inWords } from '../api.ts'
import { Code } from '../code-tabs.tsx'
import { Section, Time } from '../parts.tsx'
import { polled, reading, Waiting } from '../queries.tsx'
import type { Answer, Refusal, SecretStatus, Session } from '../routes.ts'
import { ListHead } from './list-head.tsx'

export const POLL_MS = 2_000

/** The end of the current signing secret. */
type Hint = SecretStatus['hint'] | undefined

const MEANING: Record<Refusal['reason'], (refusal: Refusal, hint: Hint) => string> = {
  header_missing: () =>
    'A header is missing or sent twice. Send X-Company-Id, webhook-id, webhook-timestamp, and webhook-signature once each.',
  timestamp_malformed: () => "webhook-timestamp isn't a number. Send Unix seconds.",
  timestamp_stale: ({ clockSkewSeconds = 0 }) =>
    `Your clock is ${inWords(Math.abs(clockSkewSeconds))} ${clockSkewSeconds < 0 ? 'behind' : 'ahead'}, or the request was delayed. Synchronize the clock with NTP, and sign each request when you send it.`,
  signature_malformed: () =>
    'webhook-signature has no entry in the form v1,<base64 of 32 bytes>. Send the signature in that form.',
  signature_mismatch: (_refusal, hint) =>
    hint
      ? `The sender probably uses a different secret: the current one ends in ${hint}. If not, sign the raw bytes of {id}.{timestamp}.{body} with the base64-decoded part after whsec_.`
      : "You don't have a signing secret yet. Create one, then sign with it.",
  previous_secret: () => 'The request was signed with the previous secret. Give this sender the current one.',
  subscription_inactive: () => "Your subscription isn't active. Renew it to send events.",
  feature_not_in_plan: () => "Your plan doesn't include events. Upgrade to send them.",
  malformed_body: () =>
    "The body isn't valid JSON: it is cut off, isn't UTF-8, or has a syntax error or a duplicate key.",
  invalid_request: () => 'A field is missing, unknown, or invalid. The response names it.',
  event_id_conflict: () =>
    'An event with this ID is already stored with different content. Give each event its own ID.',
  rate_limited: () =>
    'One network sent too many requests, or too many that were refused. Wait as long as Retry-After says.',
}

export const adviceFor = (refusal: Refusal, hint: Hint) => MEANING[refusal.reason](refusal, hint)

type ReceivedEvent = Answer<'GET /auth/events'>['events'][number]

interface Props {
  session: Session
  /** Without it, the list has only accepted events. */
  refused?: UseQueryResult<Answer<'GET /auth/webhook-secret/refusals'>>
  hint?: Hint
}

/** Accepted events and refused requests in one list, latest first. Watching shows content and is audited, so it is asked for. */
export function ReceivedEvents({ session, refused, hint }: Props) {
  const [isWatching, setWatching] = useState(false)
  const watched = useQuery({
    ...reading('GET /auth/events', { query: { limit: 50 } }),
    ...polled(POLL_MS),
    enabled: isWatching,
  })
  const rows = [
    ...((isWatching && watched.data?.events) || []).map(toRow),
    ...(refused?.data?.refusals ?? []).map((refusal) => toRefusedRow(refusal, hint)),
  ].sort((one, other) => other.at.localeCompare(one.at))
  const isLoaded = isWatching ? watched.data : refused?.data
  return (
    <Section
      id="events"
      title="Received events"
      aside={
        session.permissions.includes('events:inspect') && (
          <button type="button" class="small" onClick={() => setWatching(!isWatching)}>
            {isWatching ? 'Stop watching' : 'Watch events'}
          </button>
        )
      }
    >
      <p class="lead">
        {refused && 'Refused requests of the last 7 days, grouped by minute. '}
        {isWatching
          ? 'Accepted events appear here for 15 minutes.'
          : 'To see accepted events and their content, watch them. The activity shows who watches.'}
      </p>
      {refused && <Waiting of={refused} />}
      {isWatching && <Waiting of={watched} />}
      {isLoaded && rows.length === 0 && (
        <p class="quiet">{isWatching ? 'No events yet.' : 'No refused requests.'}</p>
      )}
      {rows.length > 0 && (
        <table class="list" aria-labelledby="events">
          <ListHead columns={{ Time: '10.5rem', Event: undefined, Outcome: '36%' }} />
          <tbody>
            {rows.map(({ key, at, event, outcome }) => (
              <tr key={key} class="list-row">
                <td>
                  <Time at={at} />
                </td>
                <th scope="row">{event}</th>
                <td>{outcome}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  )
}

const toRow = ({ id, type, receivedAt, data }: ReceivedEvent) => ({
  key: id,
  at: receivedAt,
  event: (
    <>
      <details>
        <summary>
          <code>{type}</code>
        </summary>
        {data ? (
          <Code text={JSON.stringify(data, null, 2)} what="the content" />
        ) : (
          <p class="quiet">The content is larger than 8 KiB, so it isn't shown.</p>
        )}
      </details>
      <span class="quiet">{id}</span>
    </>
  ),
  outcome: <span class="tick">Accepted</span>,
})

const toRefusedRow = (refusal: Refusal, hint: Hint) => ({
  key: `${refusal.reason} ${refusal.firstAt} ${refusal.ipAddress}`,
  at: refusal.lastAt,
  event: (
    <>
      {refusal.webhookId ? <code>{refusal.webhookId}</code> : 'No valid ID'}{' '}
      <span class="quiet">from {refusal.ipAddress}</span>
    </>
  ),
  outcome: (
    <>
      <strong class="error">Refused</strong> {refusal.count} × <code>{refusal.reason}</code>
      <p class="quiet">{adviceFor(refusal, hint)}</p>
    </>
  ),
})
