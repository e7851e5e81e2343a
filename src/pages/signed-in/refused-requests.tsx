import { Time } from '../parts.tsx'
import type { Refusal } from '../routes.ts'

/** What each reason means, and what to do. */
const MEANING: Record<Refusal['reason'], (refusal: Refusal, hint: string | undefined) => string> = {
  header_missing: () =>
    'A header is missing or sent twice. Send X-Company-Id, webhook-id, webhook-timestamp and webhook-signature, each once.',
  timestamp_malformed: () => "webhook-timestamp isn't a number. Send Unix seconds.",
  timestamp_stale: ({ clockSkewSeconds = 0 }) =>
    `Your clock is ${inWords(Math.abs(clockSkewSeconds))} ${clockSkewSeconds < 0 ? 'behind' : 'ahead'}, or the request was held up. Set the clock by NTP, and sign when you send.`,
  signature_malformed: () =>
    'webhook-signature has no entry of the form v1,<base64 of 32 bytes>. Send the signature in that form.',
  signature_mismatch: (_refusal, hint) =>
    `${hint ? `Wrong secret, most likely: the current one ends in ${hint}.` : 'There is no signing secret yet: create one.'} If the sender has that one, sign id.timestamp.body using the base64-decoded part after whsec_, and the raw body bytes.`,
  previous_secret: () => 'Signed with the secret before the current one. Give this sender the new one.',
  subscription_inactive: () => 'The subscription is not active. Renew it to send events.',
  feature_not_in_plan: () => "Your plan doesn't include events. A larger one does.",
  malformed_body: () =>
    "Invalid JSON: it ends too early, has a syntax error, a duplicate key, or isn't UTF-8.",
  invalid_request: () =>
    'The body has a field that is missing, unknown or of the wrong form. The answer names it.',
  event_id_conflict: () =>
    'An event with this ID is already stored with other content. Give each event an ID of its own.',
  rate_limited: () =>
    'Too many requests, or too many refused ones, from one network. Wait as Retry-After says.',
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
    return <p class="empty">None. When a request is refused, you'll see why here, and what to do.</p>
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
