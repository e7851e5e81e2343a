import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, type Challenge } from './api.ts'
import { Field, Form } from './form.tsx'
import { LinkButton } from './parts.tsx'
import { PasskeyButton } from './passkey-button.tsx'
import { canUsePasskeys } from './passkeys.ts'

/** As long as a challenge lives: second-factor/challenges.ts. */
const LIFETIME_MS = 5 * 60_000
const MAX_TRIES = 5

const EXPIRED = 'The five minutes for the second factor are over. Begin again.'
const TOO_MANY = 'The second factor was wrong too often. Begin again.'

/** The ways to answer, the best first. */
const WAYS = ['passkey', 'totp', 'recovery_code'] as const
type Way = (typeof WAYS)[number]
const CHOOSE: Record<Way, string> = {
  passkey: 'Use a passkey',
  totp: 'Use an authenticator app',
  recovery_code: 'Use a recovery code',
}

interface Props {
  asked: Challenge
  /** Sends what was given. */
  send: (proof: object) => Promise<void>
  /** The challenge is of no use any more, and why. */
  onDead: (why: string) => void
  onCancel: () => void
  cancel: string
}

/** Asks for a second factor, by whichever way the user chooses. */
export function SecondStep({ asked, send, onDead, onCancel, cancel }: Props) {
  const ways = WAYS.filter((way) => asked.methods.includes(way) && (way !== 'passkey' || canUsePasskeys()))
  const [chosen, setChosen] = useState<Way | undefined>(ways[0])
  const tries = useRef(0)

  useEffect(() => {
    const end = Date.now() + LIFETIME_MS
    // The clock goes on while a device sleeps; a timeout does not.
    const timer = setInterval(() => Date.now() < end || onDead(EXPIRED), 1_000)
    return () => clearInterval(timer)
  }, [asked])

  /** Sign-in and proof say in their own ways what is wrong: both are said at the field here. */
  async function give(way: Way, given: object): Promise<void> {
    try {
      await send({ challenge: asked.challenge, method: way, ...given })
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.fields['challenge']) return onDead(EXPIRED)
      if (!isWrong(error)) throw error
      tries.current += 1
      if (tries.current >= MAX_TRIES) return onDead(TOO_MANY)
      const fields = way === 'passkey' ? {} : { code: 'is wrong, or was used before' }
      throw new ApiError(error.code, 'The passkey is not accepted. Try again, or choose another way.', {
        fields,
      })
    }
  }

  return (
    <>
      {chosen === 'passkey' && <Passkey asked={asked} give={(response) => give('passkey', { response })} />}
      {(chosen === 'totp' || chosen === 'recovery_code') && (
        <Code key={chosen} way={chosen} give={(code) => give(chosen, { code })} />
      )}
      {!chosen && (
        <p class="notice">
          This browser has no passkeys, and you have nothing else. Use another browser, or ask an admin of
          your company to reset your second factors.
        </p>
      )}
      <p class="links">
        {ways
          .filter((way) => way !== chosen)
          .map((way) => (
            <LinkButton key={way} onClick={() => setChosen(way)}>
              {CHOOSE[way]}
            </LinkButton>
          ))}
        <LinkButton onClick={onCancel}>{cancel}</LinkButton>
      </p>
    </>
  )
}

function isWrong({ code, fields }: ApiError): boolean {
  return code === 'invalid_second_factor' || 'code' in fields || 'response' in fields
}

function Passkey({ asked, give }: { asked: Challenge; give: (response: object) => Promise<void> }) {
  const { challenge, passkeyOptions = {} } = asked
  return (
    <>
      <p>Your device checks that it is you, by a fingerprint, your face or a PIN.</p>
      <PasskeyButton
        action="Use your passkey"
        isMain
        begin={() => ({ challenge, passkeyOptions })}
        give={({ response }) => give(response)}
      />
    </>
  )
}

const FIELDS = {
  totp: {
    label: 'Code',
    hint: 'The six digits that your authenticator app shows now.',
    autoComplete: 'one-time-code',
    isNumeric: true,
  },
  recovery_code: {
    label: 'Recovery code',
    hint: 'One of those that you have stored. Each works once.',
  },
}

function Code({ way, give }: { way: keyof typeof FIELDS; give: (code: string) => Promise<void> }) {
  return (
    <Form action="Continue" onSubmit={({ code = '' }) => give(code.trim())}>
      {(fields) => <Field {...FIELDS[way]} name="code" hasFocus error={fields['code']} />}
    </Form>
  )
}
