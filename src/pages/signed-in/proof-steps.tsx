import { useState } from 'preact/hooks'
import { ApiError, type Challenge, call } from '../api.ts'
import { Field, Form, Username } from '../form.tsx'
import { PasskeyButton } from '../passkey-button.tsx'
import { canUsePasskeys } from '../passkeys.ts'
import { useRead } from '../queries.tsx'
import type { Body, PasskeyProof } from '../routes.ts'
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

  if (asked)
    return (
      <SecondStep
        asked={asked}
        send={send}
        onDead={beginAgain}
        onCancel={onCancel ?? (() => beginAgain(null))}
        cancel={onCancel ? 'Cancel' : 'Back'}
      />
    )
  return (
    <>
      {said && (
        <p class="notice" role="status">
          {said}
        </p>
      )}
      <Form action="Continue" {...(onCancel && { onCancel })} onSubmit={({ password }) => send({ password })}>
        <Username email={email} />
        <Field label="Password" name="password" type="password" autoComplete="current-password" hasFocus />
      </Form>
      <ByPasskey give={(proof) => send({ method: 'passkey', ...proof })} />
    </>
  )
}

/** Shown if the user has a passkey and the browser supports it. */
function ByPasskey({ give }: { give: (proof: PasskeyProof) => Promise<void> }) {
  const { data } = useRead('GET /auth/second-factors')
  const hasPasskey = data?.secondFactors.some(({ kind }) => kind === 'passkey')
  if (!hasPasskey || !canUsePasskeys()) return null
  return (
    <>
      <p class="or">or</p>
      <PasskeyButton
        action="Use a passkey"
        begin={() => call('POST /auth/reauthenticate/passkey/options')}
        give={(proof) => give(proof).catch(explain)}
      />
    </>
  )
}

function explain(error: unknown): never {
  const isRefused = error instanceof ApiError && ('response' in error.fields || 'challenge' in error.fields)
  if (!isRefused) throw error
  throw new ApiError(error.code, "This passkey wasn't accepted. Try again, or use your password.")
}
