import { useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { canUsePasskeys } from '../passkeys.ts'
import type { NewAuthenticator } from '../routes.ts'
import { AddPasskey } from './add-passkey.tsx'
import { SetUpAuthenticator } from './set-up-authenticator.tsx'

interface Props {
  /** The emailed code, if the member needs one. */
  mailCode?: string | undefined
  /** An app whose setup already started. */
  begun?: NewAuthenticator | undefined
  onBegin?: () => void
  /** Gets recovery codes after the first factor. */
  onAdded: (recoveryCodes: string[] | undefined) => void
  /** Gets the error, which can be about the emailed code. */
  onRefused?: (error: unknown) => never
}

/** Chooses a kind of second factor and adds it. */
export function AddFactor({ mailCode, begun, onBegin, onAdded, onRefused = rethrow }: Props) {
  const unused = useRef(begun)
  const [chosen, setChosen] = useState<'passkey' | NewAuthenticator | null>(null)
  const change = useChange()
  const { run, isBusy } = change
  const isAble = canUsePasskeys()

  function choosePasskey(): void {
    onBegin?.()
    setChosen('passkey')
  }
  const chooseApp = () =>
    run(async () => {
      onBegin?.()
      const body = { mailCode }
      const app = unused.current ?? (await call('POST /auth/second-factors/totp', { body }).catch(onRefused))
      unused.current = undefined
      setChosen(app)
    })
  const step = {
    onCancel: () => setChosen(null),
    onAdded: (recoveryCodes: string[] | undefined) => {
      setChosen(null)
      onAdded(recoveryCodes)
    },
  }

  if (chosen === 'passkey') return <AddPasskey mailCode={mailCode} onRefused={onRefused} {...step} />
  if (chosen) return <SetUpAuthenticator added={chosen} {...step} />
  return (
    <>
      <Outcome of={change} />
      <div class="ways">
        <div>
          <h3>Passkey</h3>
          <p>
            {isAble
              ? 'Your device verifies you with your fingerprint, face, or PIN. A passkey works only on this site.'
              : "This browser doesn't support passkeys at this address. To add one, use a different browser."}
          </p>
          {isAble && (
            <button type="button" aria-disabled={isBusy} onClick={choosePasskey}>
              Add a passkey
            </button>
          )}
        </div>
        <div>
          <h3>Authenticator app</h3>
          <p>An app on your phone shows a 6-digit code that changes every 30 seconds.</p>
          <button type="button" aria-disabled={isBusy} onClick={chooseApp}>
            {isBusy ? 'One moment…' : 'Add an app'}
          </button>
        </div>
      </div>
    </>
  )
}

function rethrow(error: unknown): never {
  throw error
}
