import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, type Challenge, call, session } from '../api.ts'
import { Field, Form, Username } from '../form.tsx'
import { Dialog } from '../parts.tsx'
import { PasskeyButton } from '../passkey-button.tsx'
import { canUsePasskeys } from '../passkeys.ts'
import { useRead } from '../queries.tsx'
import type { Body } from '../routes.ts'
import { SecondStep } from '../second-step.tsx'

interface Props {
  email: string
  onProven: () => void
  /** Without it, the user cannot cancel. */
  onCancel?: () => void
}

/** Re-authentication with the steps of sign-in: password and second factor, or a passkey. */
export function ProofSteps({ email, onProven, onCancel }: Props) {
  const [asked, setAsked] = useState<Challenge | null>(null)
  const [said, setSaid] = useState<string | null>(null)
  const { data } = useRead('GET /auth/second-factors')
  const hasPasskey = canUsePasskeys() && data?.secondFactors.some(({ kind }) => kind === 'passkey')

  async function send(body: Body<'POST /auth/reauthenticate'>): Promise<void> {
    const challenge = await call('POST /auth/reauthenticate', { body })
    setSaid(null)
    if (challenge) setAsked(challenge)
    else onProven()
  }
  function beginAgain(why: string | null): void {
    setSaid(why)
    setAsked(null)
  }

  if (asked) return <SecondStep asked={asked} send={send} onEnd={beginAgain} />
  return (
    <>
      <p class="notice" role="status">
        {said}
      </p>
      <Form action="Continue" onCancel={onCancel} onSubmit={({ password }) => send({ password })}>
        <Username email={email} />
        <Field label="Password" name="password" type="password" autoComplete="current-password" hasFocus />
      </Form>
      {hasPasskey && (
        <>
          <p class="quiet or">or</p>
          <PasskeyButton
            action="Use a passkey"
            begin={() => call('POST /auth/reauthenticate/passkey/options')}
            give={(proof) => send({ method: 'passkey', ...proof }).catch(explain)}
          />
        </>
      )}
    </>
  )
}

function explain(error: unknown): never {
  const isRefused = error instanceof ApiError && ('response' in error.fields || 'challenge' in error.fields)
  if (!isRefused) throw error
  throw new ApiError(error.code, "This passkey wasn't accepted. Try again, or use your password.")
}

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
