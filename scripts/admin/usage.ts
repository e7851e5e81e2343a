export const USAGE = `Usage: npm run admin -- <command> [--json] [--as NAME]

  migrate
  company create --name N --admin-email E [--admin-name A] [--plan P]
  company list [--limit L]
  company show|suspend|resume|delete COMPANY
  company security COMPANY [--second-factor F]
  user create --company COMPANY --email E --role R [--name N]
  user list --company COMPANY [--limit L]
  user show|disable|enable|unlock|reset-second-factors|delete --company COMPANY (--user U | --email E)
  user password --company COMPANY (--user U | --email E) [--previous-valid-seconds N]
  user role --company COMPANY (--user U | --email E) --role R
  invite --company COMPANY --email E --role R
  subscription set --company COMPANY --status S [--plan P]
  sessions end --company COMPANY [--user U]
  sessions end --all
  audit --company COMPANY [--email E] [--limit L]
  keys rotate
  keys list
  keys retire KID
  client create --name N --scope introspect,events:read
  client list
  client rotate CLIENT [--finish]
  client delete CLIENT
  restored
  prune

COMPANY is a handle, such as acme-4821, or an id; CLIENT an id; R is admin, analyst, developer or viewer; P starter, growth or
enterprise; S trialing, active, past_due, canceled or suspended; F optional, admins or everyone. Lists show the newest
100, or L; users by e-mail.

"user password" gives a service account another password, and prints it: the old one, and the sessions that it
opened, are dead at once, or work for N more seconds, 604800 at most. "user reset-second-factors" is for somebody who
lost theirs: the password is void too, and a link is mailed to choose another. "company delete" and "user delete"
cannot be undone. "keys retire" is for a leaked key: its tokens fail at once; a KID that begins with "-" comes last,
after "--". "client create" is for a service of the platform, and shows its secret once; "client rotate" adds a second
one, and "--finish" ends the first. "restored" is for a backup that was restored, before any
instance starts: it ends all sessions, voids links, waiting mails, invitations, challenges and keys of access tokens,
and says what else to check.

"company create" and "user create" read a password from standard input (\`echo ... | npm run admin -- company create ...\`).
Without one, they print a link with which the person chooses a password within 72 hours. --as NAME is shown in the audit trail beside
"operator"; by default, it is SUDO_USER or USER. --json prints one JSON object; \`npm run --silent admin\` keeps npm's own
lines out of it, in which npm replaces ids by ***.`

/** A command that cannot run; the message says why. */
export class UsageError extends Error {}
