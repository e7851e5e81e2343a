import { useEffect, useRef, useState } from 'preact/hooks'
import { session } from '../api.ts'
import { ProofSteps } from './proof-steps.tsx'

/** Asks again who one is where a change needs a recent proof; then the change goes on where it was. */
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
          <p>You signed in a while ago. This change needs a proof that it is still you.</p>
          <ProofSteps email={email} onProven={() => close(true)} onCancel={() => close(false)} />
        </>
      )}
    </dialog>
  )
}
