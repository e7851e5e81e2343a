#!/bin/sh
# Walks through the API with curl: the demo company, a company that registers itself, service accounts, two-factor
# authentication, and cookies. Each response is printed. The walk stops at the first one with an unexpected status.
#
#     export BASE=… COMPANY=… EMAIL=… PASSWORD=…   # the line that `npm start` prints
#     scripts/walk.sh
#
# Emails are read from the folder in which a service without SMTP_URL saves them: $DATA_DIR/mail, or .data/mail. Each run
# registers a new company and replaces the demo company's signing secret, so five runs an hour reach a limit. A run takes
# most of a minute, because a code of an authenticator app works once.
set -eu
cd "$(dirname "$0")/.."
: "${BASE:?Set BASE, COMPANY, EMAIL, and PASSWORD: npm start prints the line}" "${COMPANY:?}" "${EMAIL:?}" "${PASSWORD:?}"
MAIL=${DATA_DIR:-.data}/mail
SCRATCH=$(mktemp -d)
trap 'rm -f "$SCRATCH/body" "$SCRATCH/cookies"; rmdir "$SCRATCH"' EXIT

step() { printf '\n# %s\n' "$1"; }

# call STATUS METHOD PATH [options of curl]: sends a request, prints the response, and keeps its body in $RESPONSE.
call() {
  expected=$1 method=$2 path=$3
  shift 3
  status=$(curl -s -o "$SCRATCH/body" -w '%{http_code}' -X "$method" "$BASE$path" "$@") || true
  RESPONSE=$(cat "$SCRATCH/body")
  printf '%s %s → %s %s\n' "$method" "$path" "$status" "$RESPONSE"
  [ "$status" = "$expected" ] || { echo "expected $expected" >&2 && exit 1; }
}
# json STATUS METHOD PATH BODY [options of curl]
json() {
  expected=$1 method=$2 path=$3 body=$4
  shift 4
  call "$expected" "$method" "$path" -H 'content-type: application/json' -d "$body" "$@"
}

# A field of the last response, such as user.id.
field() { node -p "JSON.parse(process.argv[1]).$1" "$RESPONSE"; }
bearer() { echo "authorization: Bearer $1"; }
code() { node -p "new (require('otpauth').TOTP)({ secret: '$SECRET' }).generate()"; }

# token KIND EMAIL: waits for an email, and prints the token or the code in it.
token() {
  seconds=0
  until mail=$(find "$MAIL" -name "*$1*$2*.txt" 2>/dev/null | sort | tail -1) && [ "$mail" ]; do
    [ $((seconds += 1)) -le 60 ] || { echo "no email: $1 for $2" >&2 && exit 1; }
    sleep 1
  done
  grep -oE '(verify|reset|invite)_[A-Za-z0-9_-]{43}|[0-9]{4} [0-9]{4}$' "$mail"
  mv "$mail" "$mail.read"
}

# sign_in STATUS [options of curl]
sign_in() {
  status_=$1
  shift
  json "$status_" POST /auth/login "{\"company\":\"$COMPANY\",\"email\":\"$EMAIL\",\"password\":\"$PASSWORD\"}" "$@"
  [ "$status_" = 200 ] || return 0
  ACCESS=$(field accessToken)
  REFRESH=$(field refreshToken)
  COMPANY_ID=$(field accessContext.companyId)
}

step 'Sign in. The response has both tokens, the user, their permissions, the subscription, and the plan.'
sign_in 200

step 'Read the session. It shows the current permissions.'
call 200 GET /auth/session -H "$(bearer "$ACCESS")"

step 'Refresh. A retry with the same key returns the same refresh token, for five minutes.'
KEY=$(node -p 'crypto.randomUUID()')
call 200 POST /auth/refresh -H "$(bearer "$REFRESH")" -H "idempotency-key: $KEY"
SUCCESSOR=$(field refreshToken)
call 200 POST /auth/refresh -H "$(bearer "$REFRESH")" -H "idempotency-key: $KEY"
[ "$(field refreshToken)" = "$SUCCESSOR" ]

step 'Create a signing secret. It replaces the current one, and is shown only once.'
call 200 POST /auth/webhook-secret/regenerate -H "$(bearer "$ACCESS")"
SIGNING_SECRET=$(field secret)

step 'Send a signed event.'
export COMPANY_ID SIGNING_SECRET
scripts/with-node scripts/send-event.ts

step 'Sign out. After the response, every credential of the session is rejected.'
call 204 POST /auth/logout -H "$(bearer "$ACCESS")"
call 401 GET /auth/session -H "$(bearer "$ACCESS")"
call 401 POST /auth/refresh -H "$(bearer "$SUCCESSOR")"

step 'Register a company.'
EMAIL=ada@acme.example
PASSWORD='correct horse battery staple'
json 201 POST /auth/register \
  "{\"companyName\":\"Acme\",\"name\":\"Ada\",\"email\":\"$EMAIL\",\"password\":\"$PASSWORD\"}"
json 200 POST /auth/verify-email "{\"token\":\"$(token verify "$EMAIL")\"}"
COMPANY=$(field companyHandle)
sign_in 200

step 'Invite a colleague, who accepts.'
json 201 POST /auth/invitations '{"email":"bob@acme.example","role":"analyst"}' -H "$(bearer "$ACCESS")"
json 201 POST /auth/invitations/accept \
  "{\"token\":\"$(token invitation bob@)\",\"name\":\"Bob\",\"password\":\"quiet lakes seldom freeze\"}"

step 'Reset a password.'
json 202 POST /auth/password/forgot "{\"company\":\"$COMPANY\",\"email\":\"bob@acme.example\"}"
json 204 POST /auth/password/reset \
  "{\"token\":\"$(token reset bob@)\",\"newPassword\":\"tall ships leave at noon\"}"

step 'Add a service account, and sign in as it.'
json 201 POST /auth/members '{"name":"Billing worker","role":"developer"}' -H "$(bearer "$ACCESS")"
SERVICE=$(field id)
SERVICE_EMAIL=$(field email)
SERVICE_PASSWORD=$(field password)
json 200 POST /auth/login \
  "{\"company\":\"$COMPANY\",\"email\":\"$SERVICE_EMAIL\",\"password\":\"$SERVICE_PASSWORD\"}"

step 'Give the service account a new password. The previous one works for another hour.'
json 200 POST "/auth/members/$SERVICE/password" '{"previousValidSeconds":3600}' -H "$(bearer "$ACCESS")"
for password in "$SERVICE_PASSWORD" "$(field password)"; do
  json 200 POST /auth/login "{\"company\":\"$COMPANY\",\"email\":\"$SERVICE_EMAIL\",\"password\":\"$password\"}"
done

step 'Add an authenticator app. The first second factor needs an emailed code.'
call 202 POST /auth/second-factors/mail-code -H "$(bearer "$ACCESS")"
json 201 POST /auth/second-factors/totp "{\"mailCode\":\"$(token mailbox_code "$EMAIL")\"}" -H "$(bearer "$ACCESS")"
FACTOR=$(field id)
SECRET=$(field secret)
json 200 POST "/auth/second-factors/totp/$FACTOR/confirm" "{\"code\":\"$(code)\"}" -H "$(bearer "$ACCESS")"
RECOVERY_CODE=$(field 'recoveryCodes[0]')

step 'Sign in with both factors. A code works once, so wait for the next one.'
sign_in 401
CHALLENGE=$(field challenge)
sleep 30
json 200 POST /auth/login/second-factor "{\"challenge\":\"$CHALLENGE\",\"method\":\"totp\",\"code\":\"$(code)\"}"
ACCESS=$(field accessToken)

step 'Require a second factor of all admins. It takes effect on the next request.'
json 200 PATCH /auth/company/security '{"secondFactor":"admins"}' -H "$(bearer "$ACCESS")"

step 'Sign in with a cookie instead of tokens, as browsers do, and with a recovery code.'
sign_in 401 -H 'x-session-mode: cookie'
json 200 POST /auth/login/second-factor \
  "{\"challenge\":\"$(field challenge)\",\"method\":\"recovery_code\",\"code\":\"$RECOVERY_CODE\"}" -c "$SCRATCH/cookies"
call 200 GET /auth/session -b "$SCRATCH/cookies"

step 'A different site cannot use the cookie.'
call 403 POST /auth/logout -b "$SCRATCH/cookies" -H 'origin: https://other.example'
call 204 POST /auth/logout -b "$SCRATCH/cookies" -H "origin: ${BASE%/api}"
call 401 GET /auth/session -b "$SCRATCH/cookies"

echo
echo 'The walk is complete.'
