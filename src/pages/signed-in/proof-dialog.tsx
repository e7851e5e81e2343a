import { useEffect, useRef, useState } from 'preact/hooks'
import { call, session } from '../api.ts'
import { Field, Form } from '../parts.tsx'

/** Asks for the password again where a change needs a recent proof; then the change goes on where it was. */
export function ProofDialog({ email }: { email: string }) {
  const dialog = useRef<HTMLDialogElement>(null)
  /** Who waits. Several changes at once wait for one proof. */
  const waiting = useRef<((isProven: boolean) => void)[]>([])
  const [isOpen, setOpen] = useState(false)

  useEffect(() => {
    session.prove = () => {
      setOpen(true)
      if (!dialog.current?.open) dialog.current?.showModal()
      return new Promise<boolean>((resolve) => waiting.current.push(resolve))
    }
    return () => {
      session.prove = async () => false
    }
  }, [])

  /** Whoever waits by now is answered: a proof that comes after its dialog was cancelled is one for the next, too. */
  function close(isProven: boolean): void {
    dialog.current?.close()
    setOpen(false)
    for (const answer of waiting.current.splice(0)) answer(isProven)
  }

  return (
    <dialog ref={dialog} aria-labelledby="proof-title" onCancel={() => close(false)}>
      {isOpen && (
        <>
          <h2 id="proof-title">Is it you?</h2>
          <p>You gave your password a while ago. Give it again for this change.</p>
          <Form
            action="Continue"
            onCancel={() => close(false)}
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
        </>
      )}
    </dialog>
  )
}
