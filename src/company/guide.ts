import { PLAN_FEATURES, ROLE_PERMISSIONS } from './account.ts'

/** A chapter of the OpenAPI document. */
export const RIGHTS_GUIDE = `## Roles and plans

As they are delivered; the answer to a sign-in has what holds at that moment. This service enforces
\`webhook-secret:manage\`, \`members:manage\`, \`audit:read\` and the feature \`event_ingest\`; the other permissions and
features are for the services beside it.

| role | permissions |
|---|---|
${toRows(ROLE_PERMISSIONS)}

| plan | features |
|---|---|
${toRows(PLAN_FEATURES)}
`

function toRows(lists: Record<string, readonly string[]>): string {
  return Object.entries(lists)
    .map(([name, words]) => `| \`${name}\` | ${words.map((word) => `\`${word}\``).join(' ')} |`)
    .join('\n')
}
