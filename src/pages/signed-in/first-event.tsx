import { Time } from '../parts.tsx'
import type { NewSecret, Refusal, SecretStatus } from '../routes.ts'
import { adviceFor } from './refused-requests.tsx'
import { isUsed } from './signing-secret.tsx'

interface Props {
  status: SecretStatus
  fresh: NewSecret | null
  refusals: Refusal[]
}

/** The status of events signed with the current secret, shown next to the example code. */
export function FirstEvent({ status, fresh, refusals }: Props) {
  const { createdAt, lastUsedAt, hint } = status
  const [refusal] = refusals
    .filter(({ lastAt }) => createdAt !== null && lastAt >= createdAt)
    .sort((one, other) => other.lastAt.localeCompare(one.lastAt))
  const isFirst = fresh !== null && isUsed(fresh, status)
  return (
    <div role="status">
      {lastUsedAt ? (
        <p class="done tick">
          {isFirst ? (
            'First event received.'
          ) : (
            <>
              Last event received <Time at={lastUsedAt} />.
            </>
          )}
        </p>
      ) : refusal ? (
        <p class="error box">
          Refused at <Time at={refusal.lastAt} />. {adviceFor(refusal, hint ?? undefined)}
        </p>
      ) : (
        createdAt && <p class="quiet">Waiting for the first event signed with the secret…</p>
      )}
    </div>
  )
}
