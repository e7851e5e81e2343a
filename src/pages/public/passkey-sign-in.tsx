import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { PasskeyButton } from '../passkey-button.tsx'
import { askForPasskey, canOfferPasskeys, canUsePasskeys } from '../passkeys.ts'
import { passkeyMark } from '../remembered.ts'
import type { PasskeyProof } from '../routes.ts'
import { COOKIE_MODE, type OnSignedIn } from './cookie-session.ts'

/** Options expire after five minutes, so the offer is renewed earlier. */
const RENEWED_MS = 4 * 60_000
const LOOK_MS = 10_000

const begin = () => call('POST /auth/login/passkey/options', { headers: COOKIE_MODE })

/** Sign-in with only a passkey: by a button, and in the email field. */
export function PasskeySignIn({ isFirst, onSignedIn }: { isFirst: boolean; onSignedIn: OnSignedIn }) {
  const [isAsking, setAsking] = useState(false)
  const offered = useChange()

  async function give(body: PasskeyProof): Promise<void> {
    const session = await call('POST /auth/login/passkey', { body, headers: COOKIE_MODE }).catch(explain)
    passkeyMark.set(true)
    await onSignedIn(session)
  }
  useOffer((proof) => offered.run(() => give(proof)), !isAsking)

  if (!canUsePasskeys()) return null
  const or = <p class="quiet or">or</p>
  return (
    <>
      {!isFirst && or}
      <Outcome of={offered} />
      <PasskeyButton
        action="Sign in with a passkey"
        isMain={isFirst}
        begin={() => {
          setAsking(true)
          return begin()
        }}
        give={give}
        onEnd={() => setAsking(false)}
      />
      {isFirst && or}
    </>
  )
}

function explain(error: unknown): never {
  const isRefused = error instanceof ApiError && error.code === 'invalid_second_factor'
  if (!isRefused) throw error
  throw new ApiError(
    error.code,
    "This passkey wasn't accepted. It may have been removed from your account. Try again, or use your password.",
  )
}

/** Lets the browser offer passkeys in the email field, unless the button's dialog is open. */
function useOffer(onChosen: (proof: PasskeyProof) => Promise<void>, isActive: boolean): void {
  const current = useRef(onChosen)
  current.current = onChosen
  useEffect(() => {
    if (!isActive) return
    let isOver = false
    let begunAt = 0

    async function offer(): Promise<void> {
      if (document.hidden || Date.now() - begunAt < RENEWED_MS) return
      begunAt = Date.now()
      if (!(await canOfferPasskeys())) return
      const { challenge, passkeyOptions } = await begin()
      if (isOver) return
      const response = await askForPasskey(passkeyOptions, 'conditional')
      if (!response) return
      await current.current({ challenge, response })
      // If it was refused, the user can choose a different passkey.
      begunAt = 0
    }
    // The user did not start this, so errors stay silent.
    const look = () => offer().catch(() => {})
    look()
    const timer = setInterval(look, LOOK_MS)
    document.addEventListener('visibilitychange', look)
    return () => {
      isOver = true
      clearInterval(timer)
      document.removeEventListener('visibilitychange', look)
    }
  }, [isActive])
}
