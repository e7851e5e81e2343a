import { Time } from '../parts.tsx'
import type { Refusal } from '../routes.ts'

/** Explains each reason, and how to fix it. */
const MEANING: Record<Refusal['reason'], (refusal: Refusal, hint: string | undefined) => string> = {
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
      : 'There is no signing secret yet. Create one, and sign with it.',
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

function inWords(seconds: number): string {
  if (seconds < 120) return `${seconds} seconds`
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`
}

export const adviceFor = (refusal: Refusal, hint: string | undefined) =>
  MEANING[refusal.reason](refusal, hint)

interface Props {
  refusals: Refusal[]
  /** The end of the current signing secret. */
  hint: string | undefined
}

export function RefusedRequests({ refusals, hint }: Props) {
  if (refusals.length === 0)
    return (
      <p class="empty">No refused requests. If one is refused, you'll see the reason here, and what to do.</p>
    )
  return (
    <ul class="refusals">
      {refusals.map((refusal) => (
        <li key={`${refusal.reason} ${refusal.firstAt} ${refusal.ipAddress}`}>
          <p>{adviceFor(refusal, hint)}</p>
          <p class="quiet">
            {refusal.count} × <code>{refusal.reason}</code> from {refusal.ipAddress}, last{' '}
            <Time at={refusal.lastAt} />
            {refusal.webhookId && (
              <>
                {' '}
                as <code>{refusal.webhookId}</code>
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  )
}
