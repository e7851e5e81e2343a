import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, type Challenge } from './api.ts'
import { Field, Form } from './form.tsx'
import { LinkButton } from './parts.tsx'
import { PasskeyButton } from './passkey-button.tsx'
import { canUsePasskeys } from './passkeys.ts'
import type { Body } from './routes.ts'

/** The lifetime of a challenge: second-factor/challenges.ts. */
const LIFETIME_MS = 5 * 60_000
const MAX_TRIES = 5

const EXPIRED = 'This step timed out. Start again.'
const TOO_MANY = 'Too many wrong codes. Start again.'

/** Best first. */
const WAYS = ['passkey', 'totp', 'recovery_code'] as const
type Way = (typeof WAYS)[number]
const CHOOSE: Record<Way, string> = {
  passkey: 'Use a passkey',
  totp: 'Use an authenticator app',
  recovery_code: 'Use a recovery code',
}

const FIELDS = {
  totp: {
    label: 'Code',
    hint: 'The 6-digit code that your authenticator app shows now.',
    autoComplete: 'one-time-code',
    isNumeric: true,
  },
  recovery_code: {
    label: 'Recovery code',
    hint: 'One of the 10 codes that you saved when you added your first second factor. Each works once.',
  },
}

export type SecondProof = Body<'POST /auth/login/second-factor'>

interface Props {
  asked: Challenge
  send: (proof: SecondProof) => Promise<void>
  /** The user goes back, or the challenge no longer works. */
  onEnd: (why: string | null) => void
}

/** The second step of a sign-in, with the method that the user chooses. */
export function SecondStep({ asked, send, onEnd }: Props) {
  const { challenge, methods, passkeyOptions = {} } = asked
  const ways = WAYS.filter((way) => methods.includes(way) && (way !== 'passkey' || canUsePasskeys()))
  const [chosen, setChosen] = useState<Way | undefined>(ways[0])
  const tries = useRef(0)

  useEffect(() => {
    const end = Date.now() + LIFETIME_MS
    // The clock runs while a device sleeps; a timeout does not.
    const timer = setInterval(() => Date.now() < end || onEnd(EXPIRED), 1_000)
    return () => clearInterval(timer)
  }, [asked])

  /** Sign-in and re-authentication report a wrong factor differently. Both are shown at the field. */
  async function give(proof: SecondProof): Promise<void> {
    try {
      await send(proof)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.fields['challenge']) return onEnd(EXPIRED)
      const isWrong =
        error.code === 'invalid_second_factor' || 'code' in error.fields || 'response' in error.fields
      if (!isWrong) throw error
      tries.current += 1
      if (tries.current >= MAX_TRIES) return onEnd(TOO_MANY)
      const fields = proof.method === 'passkey' ? {} : { code: 'is wrong or was already used' }
      throw new ApiError(error.code, "This passkey wasn't accepted. Try again, or use a different method.", {
        fields,
      })
    }
  }

  const others = ways.filter((way) => way !== chosen)
  return (
    <>
      {chosen === 'passkey' && (
        <>
          <p>Your device verifies you with your fingerprint, face, or PIN.</p>
          <PasskeyButton
            action="Use your passkey"
            isMain
            begin={() => ({ challenge, passkeyOptions })}
            give={({ response }) => give({ challenge, method: 'passkey', response })}
          />
        </>
      )}
      {(chosen === 'totp' || chosen === 'recovery_code') && (
        <Form
          key={chosen}
          action="Continue"
          onSubmit={({ code }) => give({ challenge, method: chosen, code: code.trim() })}
        >
          <Field {...FIELDS[chosen]} name="code" hasFocus />
        </Form>
      )}
      {!chosen && (
        <p class="notice">
          This browser doesn't support passkeys, and you have no other method. Use a different browser.
        </p>
      )}
      <p class="links">
        {others.map((way) => (
          <LinkButton key={way} onClick={() => setChosen(way)}>
            {CHOOSE[way]}
          </LinkButton>
        ))}
        <LinkButton onClick={() => onEnd(null)}>Back</LinkButton>
      </p>
      <p class="quiet">
        Lost your passkey or phone? {others.length > 0 ? 'Use a different method above, or ask' : 'Ask'} an
        admin of your company to reset your second factors. If you're the only admin, ask your gatehouse
        operator.
      </p>
    </>
  )
}
