import type { ProblemCode } from '../../errors.ts'

export const CODES: Record<ProblemCode, string> = {
  invalid_request: 'A value is missing, unknown, or invalid. Correct the values in `errors`.',
  malformed_body:
    'The body is not a valid JSON object: syntax error, invalid UTF-8, or duplicate name. Generate it with a JSON library.',
  malformed_http:
    'The message is not valid HTTP, or is incomplete. Check the client and the proxies in between.',
  not_found: 'The path does not exist, or nothing in your company has this ID. Check the path and the ID.',
  method_not_allowed: 'The path does not support this method. Use one of the methods in `Allow`.',
  request_timeout: 'The request did not arrive in time. Retry on a new connection.',
  event_id_conflict:
    'An event with this ID has different content, so nothing in the request was stored. Give each event its own ID.',
  version_conflict:
    'The signing secret was replaced in the meantime. Read its status, and decide again whether to replace it.',
  idempotency_conflict:
    'The `Idempotency-Key` was used with an earlier token of the session. Use a new random key for each refresh.',
  already_member: 'The email already belongs to a member. Change that member, or invite someone else.',
  factor_required:
    'This requires a second factor that the member does not have, or would remove the last one although the company requires one. Add one first.',
  handle_taken: 'A different company has this handle, or had it recently. Choose a different handle.',
  quota_reached: 'A maximum is reached; `detail` says which. Delete something that you no longer need.',
  session_changed:
    'The cookie belongs to a different session than `X-Session-Id`, so nothing was done. Read `/auth/session` without that header, and show that session.',
  last_admin: 'This would leave the company without an active admin. Make someone else an admin first.',
  cursor_expired:
    'Events after the cursor were deleted because they exceeded the retention. Continue with `oldest`. Only the platform listener returns this code.',
  payload_too_large:
    'The body is larger than this endpoint accepts. Send less, or split it into several requests.',
  unsupported_media_type:
    'The body is not plain JSON. Send it as `application/json` in UTF-8, not compressed.',
  headers_too_large: 'The headers are too large, or too many. Send fewer of them, or delete cookies.',
  invalid_credentials:
    'Company, email, or password is wrong, or the user cannot sign in. The response is the same for all of these. Try again, or reset the password.',
  missing_credentials:
    'The request has no credential. Send an access token as `Authorization: Bearer`, or the session cookie.',
  invalid_token:
    'The token was altered, is from a different service, or is for a different purpose. Send it as it was issued, or sign in again.',
  token_expired:
    'The token has expired. Refresh an access token. If a refresh token has expired, sign in again.',
  session_ended: 'The session has ended; `reason` says why. Sign in again.',
  refresh_token_reused:
    'The refresh token was used before. If there is a `reason`, the session has ended: sign in again. Otherwise, continue with the tokens from the other request.',
  invalid_signature:
    'A signature header is missing, the time is wrong, or no signature is valid. Check the secret and the clock, and sign the raw body.',
  second_factor_required:
    'The password is correct, and a second factor is required. Send it with the `challenge` to `/auth/login/second-factor`.',
  invalid_second_factor:
    'The code or passkey is wrong or was used before, or the challenge has expired. Try the next code, or sign in again.',
  invalid_client:
    'The ID or secret of the platform client is wrong. Send both as HTTP Basic. Only the platform listener returns this code.',
  permission_denied:
    'The user is not allowed to do this; `detail` says why. If a permission is missing, an admin can assign a different role.',
  reauthentication_required:
    'This requires recent authentication. Send the password to `/auth/reauthenticate`, and retry.',
  second_factor_enrolment_required:
    'The company requires a second factor, and this session has not used one. Add one at `/auth/second-factors`, or use yours at `/auth/reauthenticate`.',
  email_not_verified:
    'The password is correct, but the email is not verified. Open the emailed link, or request a new one at `/auth/verify-email/resend`.',
  cross_site_request:
    'A page of a different origin sent the cookie. Send the request from the origin of the service, or from an origin in its configuration.',
  subscription_inactive: 'The subscription is canceled or suspended. Renew it, and retry.',
  feature_not_in_plan: "The company's plan does not include this feature. Upgrade to a larger plan.",
  rate_limited: 'A limit is reached. Wait as many seconds as `Retry-After` says, and retry.',
  overloaded:
    'The service is handling too many requests. Wait as many seconds as `Retry-After` says, and retry.',
  unavailable:
    'The database is not available, or the request took too long and may have completed. Wait as many seconds as `Retry-After` says, and retry.',
  internal_error:
    'Something went wrong in the service. Send the `requestId`, which is in the log, to its operator.',
}
