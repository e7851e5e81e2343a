import { useEffect, useRef, useState } from 'preact/hooks'
import { call, session } from '../api.ts'
import { Field, Form } from '../parts.tsx'

/** Asks for the password again where a change needs a recent proof; then the change goes on where it was. */
export function ProofDialog({ email }: { email: string }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [answer, setAnswer] = useState<((isProven: boolean) => void) | null>(null)

  useEffect(() => {
    // Several changes at once wait for one proof.
    let asked: Promise<boolean> | null = null
    session.prove = () => {
      asked ??= new Promise<boolean>((resolve) => {
        setAnswer(() => resolve)
        dialog.current?.showModal()
      }).finally(() => {
        asked = null
      })
      return asked
    }
    return () => {
      session.prove = async () => false
    }
  }, [])

  function close(isProven: boolean): void {
    dialog.current?.close()
    answer?.(isProven)
    setAnswer(null)
  }

  return (
    <dialog ref={dialog} aria-labelledby="proof-title" onCancel={() => close(false)}>
      {answer && (
        <>
          <h2 id="proof-title">Is it you?</h2>
          <p>You gave your password a while ago. Give it again for this change.</p>
          <Form
            action="Continue"
            onSubmit={async ({ password }) => {
              await call('/auth/reauthenticate', { body: { password } })
              close(true)
            }}
          >
            {(fields) => (
              <>
                <input type="hidden" name="username" autoComplete="username" value={email} />
                <Field
                  label="Password"
                  name="password"
                  type="password"
                  autoComplete="current-password"
                  error={fields['password']}
                />
              </>
            )}
          </Form>
          <button type="button" class="small" onClick={() => close(false)}>
            Cancel
          </button>
        </>
      )}
    </dialog>
  )
}
