import { useEffect, useRef, useState } from 'preact/hooks'
import { session } from '../api.ts'
import { Dialog } from '../parts.tsx'
import { ProofSteps } from './proof-steps.tsx'

/** Re-authenticates the user when a change requires it, then continues the change. */
export function ProofDialog({ email }: { email: string }) {
  /** Concurrent changes wait for the same re-authentication. */
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

  /** Settles all waiting changes, so a result that arrives after Cancel also settles the next dialog's changes. */
  function close(isProven: boolean): void {
    setOpen(false)
    for (const answer of waiting.current.splice(0)) answer(isProven)
  }

  if (!isOpen) return null
  return (
    <Dialog title="Confirm it's you" onClose={() => close(false)}>
      <p>You signed in a while ago. To make this change, enter your password.</p>
      <ProofSteps email={email} onProven={() => close(true)} onCancel={() => close(false)} />
    </Dialog>
  )
}
