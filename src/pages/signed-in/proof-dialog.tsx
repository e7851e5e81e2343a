import { useEffect, useRef, useState } from 'preact/hooks'
import { session } from '../api.ts'
import { Dialog } from '../parts.tsx'
import { ProofSteps } from './proof-steps.tsx'

/** Asks again who one is where a change needs a recent proof; then the change goes on where it was. */
export function ProofDialog({ email }: { email: string }) {
  /** Who waits. Several changes at once wait for one proof. */
  const waiting = useRef<((isProven: boolean) => void)[]>([])
  const [isOpen, setOpen] = useState(false)

  useEffect(() => {
    session.prove = () => {
      setOpen(true)
      return new Promise<boolean>((resolve) => waiting.current.push(resolve))
    }
    return () => {
      session.prove = async () => false
    }
  }, [])

  /** Whoever waits by now is answered: a proof that comes after its dialog was cancelled is one for the next, too. */
  function close(isProven: boolean): void {
    setOpen(false)
    for (const answer of waiting.current.splice(0)) answer(isProven)
  }

  if (!isOpen) return null
  return (
    <Dialog title="Confirm it's you" onClose={() => close(false)}>
      <p>You signed in a while ago. Enter your password to make this change.</p>
      <ProofSteps email={email} onProven={() => close(true)} onCancel={() => close(false)} />
    </Dialog>
  )
}
