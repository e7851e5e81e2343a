import { useState } from 'preact/hooks'
import { ApiError, type Challenge, call, type PasskeyChallenge, type SecondFactors } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { useLoaded } from '../loading.tsx'
import { PasskeyButton, type PasskeyProof } from '../passkey-button.tsx'
import { canUsePasskeys } from '../passkeys.ts'
import { SecondStep } from '../second-step.tsx'

interface Props {
  email: string
  onProven: () => void
  /** Without it, nothing but a proof leads on. */
  onCancel?: () => void
}

/** Proof of who one is, as sign-in asks for it: password and second factor, or a passkey alone. */
export function ProofSteps({ email, onProven, onCancel }: Props) {
  const [asked, setAsked] = useState<Challenge | null>(null)
  const [said, setSaid] = useState<string | null>(null)

  async function send(body: object): Promise<void> {
    const challenge = await call<Challenge | undefined>('/auth/reauthenticate', { body })
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
        cancel={onCancel ? 'Cancel' : 'Start again'}
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
      <ByPasskey give={(proof) => send({ method: 'passkey', ...proof })} />
    </>
  )
}

/** For who has one, and a browser that can use it. */
function ByPasskey({ give }: { give: (proof: PasskeyProof) => Promise<void> }) {
  const { value } = useLoaded(() => call<SecondFactors>('/auth/second-factors', { method: 'GET' }))
  const hasPasskey = value?.secondFactors.some(({ kind }) => kind === 'passkey')
  if (!hasPasskey || !canUsePasskeys()) return null
  return (
    <>
      <p class="or">or</p>
      <PasskeyButton
        action="Use a passkey"
        begin={() => call<PasskeyChallenge>('/auth/reauthenticate/passkey/options')}
        give={(proof) => give(proof).catch(explain)}
      />
    </>
  )
}

function explain(error: unknown): never {
  const isRefused = error instanceof ApiError && ('response' in error.fields || 'challenge' in error.fields)
  if (!isRefused) throw error
  throw new ApiError(error.code, 'The passkey is not accepted. Try again, or use your password.')
}
