import { useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { useChange } from '../data.tsx'
import { canUsePasskeys } from '../passkeys.ts'
import type { NewAuthenticator } from '../routes.ts'
import { AddPasskey } from './add-passkey.tsx'
import { SetUpAuthenticator } from './set-up-authenticator.tsx'

interface Props {
  /** Of the mailbox, for a member who must prove it. */
  mailCode?: string | undefined
  /** An app that was begun already. */
  begun?: NewAuthenticator | undefined
  onBegin?: () => void
  /** With recovery codes if it is the first factor. */
  onAdded: (recoveryCodes: string[] | undefined) => void
  /** Gets what is wrong, which can be the mailed code. */
  onRefused?: (error: unknown) => never
}

/** The kinds of second factors, of which one is chosen and added. */
export function AddFactor({ mailCode, begun, onBegin, onAdded, onRefused = rethrow }: Props) {
  const unused = useRef(begun)
  const [chosen, setChosen] = useState<'passkey' | NewAuthenticator | null>(null)
  const { run, isBusy, shown } = useChange()
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
      {shown}
      <div class="ways">
        <div>
          <h3>Passkey</h3>
          <p>
            {isAble
              ? "Your device checks that it's you, by fingerprint, face or PIN. No other site can ask for it."
              : "This browser doesn't support passkeys, or not at this address. Use another one to add a passkey."}
          </p>
          {isAble && (
            <button type="button" disabled={isBusy} onClick={choosePasskey}>
              Add a passkey
            </button>
          )}
        </div>
        <div>
          <h3>Authenticator app</h3>
          <p>An app on your phone shows six digits that change every 30 seconds.</p>
          <button type="button" disabled={isBusy} onClick={chooseApp}>
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
