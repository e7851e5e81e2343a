import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { useChange } from '../data.tsx'
import { PasskeyButton } from '../passkey-button.tsx'
import { canOfferPasskeys, canUsePasskeys, offerPasskeys } from '../passkeys.ts'
import { passkeyMark } from '../remembered.ts'
import type { PasskeyProof, Session } from '../routes.ts'
import { COOKIE_MODE, expectCookie } from './cookie-session.ts'

/** Options are good for five minutes. New ones take their place before. */
const RENEWED_MS = 4 * 60_000
const LOOK_MS = 10_000

const begin = () => call('POST /auth/login/passkey/options', { headers: COOKIE_MODE })

interface Props {
  /** It comes before the password. */
  isFirst: boolean
  onSignedIn: (session: Session) => void
}

/** Sign-in by passkey alone: by a button, and where the email is typed. */
export function PasskeySignIn({ isFirst, onSignedIn }: Props) {
  const [isAsking, setAsking] = useState(false)
  const offered = useChange()

  async function give(body: PasskeyProof): Promise<void> {
    const session = await call('POST /auth/login/passkey', { body, headers: COOKIE_MODE }).catch(explain)
    await expectCookie(session)
    passkeyMark.set(true)
    onSignedIn(session)
  }
  useOffer((proof) => offered.run(() => give(proof)), !isAsking)

  if (!canUsePasskeys()) return null
  const or = <p class="or">or</p>
  return (
    <>
      {!isFirst && or}
      {offered.shown}
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
    "This passkey wasn't accepted. It may have been removed here. Try again, or use your password.",
  )
}

/** Lets the browser offer passkeys as it offers passwords, while nothing else asks for one. */
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
      const response = await offerPasskeys(passkeyOptions)
      if (!response) return
      await current.current({ challenge, response })
      // Another one can be chosen if that was refused.
      begunAt = 0
    }
    // Nobody has asked for it yet, so nobody is told that it does not work.
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
