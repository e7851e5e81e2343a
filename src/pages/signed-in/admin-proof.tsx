import { ApiError } from '../api.ts'
import { LinkButton } from '../parts.tsx'
import { MailboxProof } from './mailbox-proof.tsx'

/** The service decides whether a code is needed. */
export function needsMailCode(error: unknown): error is ApiError {
  return error instanceof ApiError && error.fields['mailCode'] !== undefined
}

interface Props {
  /** The new admin. */
  whom: string
  onGiven: (mailCode: string) => Promise<void>
  onCancel: () => void
}

/** Asks an admin without a second factor for an emailed code before someone becomes an admin. */
export function AdminProof({ whom, onGiven, onCancel }: Props) {
  return (
    <>
      <p>
        To make <strong>{whom}</strong> an admin, enter a code that we email to you. A stolen password isn't
        enough to add an admin.
      </p>
      <MailboxProof use="admin" onStale={onCancel} onGiven={onGiven} />
      <p class="links">
        <LinkButton onClick={onCancel}>Cancel</LinkButton>
      </p>
    </>
  )
}
