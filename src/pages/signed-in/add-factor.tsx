import { useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import type { Change } from '../outcome.tsx'
import { Dialog } from '../parts.tsx'
import { canUsePasskeys } from '../passkeys.ts'
import type { NewAuthenticator } from '../routes.ts'
import { AddPasskey, type Step } from './add-passkey.tsx'
import { keepCodes } from './recovery-codes.tsx'
import { SetUpAuthenticator } from './set-up-authenticator.tsx'

const ADDED = "Second factor added. You're signed out everywhere else."

interface Props {
  change: Change
  /** The emailed code, if the member needs one. */
  mailCode?: string | undefined
  /** An app whose setup already started. */
  begun?: NewAuthenticator | undefined
  /** Describes both kinds. */
  isFirst?: boolean
  onAdded: () => void
  /** Whether an error was about the emailed code, which shows it. */
  onRefused?: (error: unknown) => boolean
}

/** Chooses a kind of second factor and adds it. */
export function AddFactor({ change, mailCode, begun, isFirst, onAdded, onRefused }: Props) {
  const unused = useRef(begun)
  const [chosen, setChosen] = useState<'passkey' | NewAuthenticator | null>(null)
  const { run, isBusy, forget } = change
  const isAble = canUsePasskeys()
  const size = isFirst ? undefined : 'small'

  function unlessRefused(error: unknown): void {
    if (!onRefused?.(error)) throw error
  }
  function choose(kind: 'passkey' | null): void {
    forget()
    setChosen(kind)
  }
  async function chooseApp(): Promise<void> {
    const body = { mailCode }
    const app =
      unused.current ?? (await call('POST /auth/second-factors/totp', { body }).catch(unlessRefused))
    unused.current = undefined
    setChosen(app ?? null)
  }
  const step: Step = {
    change,
    onCancel: () => choose(null),
    async add(request) {
      const isAdded = await keepCodes(ADDED, request).then(() => true, unlessRefused)
      if (!isAdded) return
      setChosen(null)
      onAdded()
      return ADDED
    },
  }
  return (
    <>
      {isFirst && (
        <p>
          With a passkey, your device verifies you with your fingerprint, face, or PIN. An authenticator app
          on your phone shows a 6-digit code that changes every 30 seconds.
        </p>
      )}
      {!isAble && (
        <p class="hint">
          This browser doesn't support passkeys at this address. To add one, use a different browser.
        </p>
      )}
      <div class="choices">
        {isAble && (
          <button type="button" class={size} aria-disabled={isBusy} onClick={() => choose('passkey')}>
            Add a passkey
          </button>
        )}
        <button type="button" class={size} aria-disabled={isBusy} onClick={() => run(chooseApp)}>
          Add an app
        </button>
      </div>
      {chosen && (
        <Dialog
          title={chosen === 'passkey' ? 'Add a passkey' : 'Add an authenticator app'}
          onClose={step.onCancel}
        >
          {chosen === 'passkey' ? (
            <AddPasskey mailCode={mailCode} {...step} />
          ) : (
            <SetUpAuthenticator added={chosen} {...step} />
          )}
        </Dialog>
      )}
    </>
  )
}
