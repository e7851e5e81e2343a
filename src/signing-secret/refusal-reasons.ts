/** Why requests with events are refused, as their company is told. */
export const REFUSAL_REASONS = [
  'header_missing',
  'timestamp_malformed',
  'timestamp_stale',
  'signature_malformed',
  'signature_mismatch',
  'previous_secret',
  'subscription_inactive',
  'feature_not_in_plan',
  'malformed_body',
  'invalid_request',
  'event_id_conflict',
  'rate_limited',
] as const

export type RefusalReason = (typeof REFUSAL_REASONS)[number]
