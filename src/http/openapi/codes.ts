import type { ProblemCode } from '../../errors.ts'

export const CODES: Record<ProblemCode, string> = {
  invalid_request: 'A value is missing, unknown or not accepted. Correct what `errors` names.',
  malformed_body:
    'The body is no JSON object that is accepted: broken, not UTF-8, or with a name twice. Send it as a JSON library writes it.',
  malformed_http:
    'The message is no valid HTTP, or was cut off. Look at the client and at the proxies between.',
  not_found: 'There is nothing at this path, or your company has no such thing. Check the path and the id.',
  method_not_allowed: 'The path takes other methods, which `Allow` names. Use one of them.',
  request_timeout: 'The request did not arrive in time. Send it again on another connection.',
  event_id_conflict:
    'An event with this id is stored, with other content; nothing of the request was stored. Give another event another id.',
  version_conflict:
    'Somebody has replaced the signing secret meanwhile. Read its status, and decide again whether to replace it.',
  idempotency_conflict:
    'The `Idempotency-Key` was used with an earlier token of the session. Use a new random key for each refresh.',
  already_member: 'The e-mail belongs to a member. Change that member, or invite somebody else.',
  factor_required:
    'This needs a second factor that is not there, or would remove the last one although the company asks for one. Add one first.',
  handle_taken: 'Another company has this handle, or had it within 90 days. Choose another one.',
  quota_reached:
    'There are as many of these as there can be; `detail` says of what. Delete one that is not needed.',
  session_changed:
    'The cookie belongs to a different session than `X-Session-Id` names, so nothing was done. Read `/auth/session` without that header, and show that session.',
  last_admin: 'The company would have no active admin. Make somebody else admin first.',
  cursor_expired:
    'Events behind the cursor were deleted, since they are older than the retention. Go on from `oldest`; only the platform listener answers it.',
  payload_too_large: 'The body is larger than this endpoint takes. Send less, or several requests.',
  unsupported_media_type:
    'The body is no plain JSON. Send it as `application/json` in UTF-8, not compressed.',
  headers_too_large: 'The headers are too large or too many. Send fewer of them, or delete cookies.',
  invalid_credentials:
    'Company, e-mail or password is wrong, or the user cannot sign in; the answer is the same for all. Try again, or reset the password.',
  missing_credentials:
    'The request has no credential. Send an access token as `Authorization: Bearer`, or the cookie.',
  invalid_token:
    'The token is not of this service, not for this use, or was changed. Send it as it was issued, or sign in again.',
  token_expired:
    'The token was good, and its time is over. Refresh an access token; after a refresh token, sign in.',
  session_ended: 'The session is over; `reason` says why. Sign in again.',
  refresh_token_reused:
    'The refresh token was used before. With `reason` the session has ended: sign in again. Without, go on with the token that the other request got.',
  invalid_signature:
    'A header of the signature is missing, the time is off, or no signature holds. Check the secret, the clock, and that the raw body is signed.',
  second_factor_required:
    'The password is right, and a second factor is asked for. Send it with the `challenge` to `/auth/login/second-factor`.',
  invalid_second_factor:
    'The code or passkey is wrong or was used before, or the challenge is over. Try the next code, or sign in again.',
  invalid_client:
    'Only on the listener for services of the platform: id or secret of the client is wrong. Send both as HTTP Basic.',
  permission_denied:
    'The user is not allowed to do this; `detail` says why. If a permission is lacking, an admin can give another role.',
  reauthentication_required:
    'The user has not proven who they are for a while. Send the password to `/auth/reauthenticate`, and repeat the request.',
  second_factor_enrolment_required:
    'The company asks for a second factor, and this session has proven none. Add one at `/auth/second-factors`, or sign in with it.',
  email_not_verified:
    'The password is right, and the e-mail is not verified. Open the mailed link, or ask for another at `/auth/verify-email/resend`.',
  cross_site_request:
    'A page of another origin has sent the cookie. Send it from the origin of the service, or of a page that it is configured for.',
  subscription_inactive: 'The subscription is canceled or suspended. Renew it, and send the request again.',
  feature_not_in_plan: 'The plan of the company does not include this. A larger plan does.',
  rate_limited: 'A limit is used up. Wait as many seconds as `Retry-After` says, and send the request again.',
  overloaded:
    'There is more work than can be done at once. Wait as `Retry-After` says, and send the request again.',
  unavailable:
    'The database cannot be reached, or the answer took too long; then it may be done already. Wait as `Retry-After` says, and send the request again.',
  internal_error:
    'Something is wrong in the service. Tell its operator the `requestId`, which is in the log.',
}
