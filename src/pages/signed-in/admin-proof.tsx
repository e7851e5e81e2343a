import { useState } from 'preact/hooks'
import { ApiError } from '../api.ts'
import { Dialog } from '../parts.tsx'
import { MailboxProof } from './mailbox-proof.tsx'

interface Asked {
  whom: string
  give: (mailCode?: string) => Promise<void>
  cancel: () => void
}

export const needsMailCode = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.fields['mailCode'] !== undefined

/** Asks an admin without a second factor for an emailed code before someone becomes an admin. */
export function useAdminProof() {
  const [asked, setAsked] = useState<Asked | null>(null)

  /** The service decides whether the change needs a code. */
  async function prove<Result>(
    whom: string,
    change: (mailCode?: string) => Promise<Result>,
  ): Promise<Result> {
    return await change().catch(async (error: unknown) => {
      if (!needsMailCode(error)) throw error
      const { promise, resolve, reject } = Promise.withResolvers<Result>()
      setAsked({
        whom,
        async give(mailCode) {
          try {
            resolve(await change(mailCode))
          } catch (fault) {
            // The form of the code shows what is wrong with it.
            if (needsMailCode(fault)) throw fault
            reject(fault)
          }
          setAsked(null)
        },
        cancel() {
          setAsked(null)
          reject(new ApiError('canceled', 'Without the code, nobody becomes an admin.'))
        },
      })
      return await promise
    })
  }

  const dialog = asked && (
    <Dialog title="Confirm the new admin" onClose={asked.cancel}>
      <p>
        To make <strong>{asked.whom}</strong> an admin, enter a code that we email to you. A stolen password
        isn't enough to add an admin.
      </p>
      <MailboxProof
        use="admin"
        onStale={() => asked.give().catch(asked.cancel)}
        onGiven={asked.give}
        onCancel={asked.cancel}
      />
    </Dialog>
  )
  return { prove, dialog }
}
