import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useChange } from './data.tsx'
import { askForPasskey, stopAsking } from './passkeys.ts'
import type { PasskeyChallenge, PasskeyProof } from './routes.ts'

interface Props {
  action: string
  /** What the browser is asked with. */
  begin: () => PasskeyChallenge | Promise<PasskeyChallenge>
  give: (proof: PasskeyProof) => Promise<void>
  /** It is what one does next, so it has the focus. */
  isMain?: boolean
  isPrimary?: boolean
  /** Called when it was cancelled or refused. */
  onEnd?: () => void
}

/** A button that asks the browser for a passkey. Who cancels that does nothing wrong, so it is said quietly. */
export function PasskeyButton({ action, begin, give, isMain = false, isPrimary = isMain, onEnd }: Props) {
  const { run, isBusy, shown } = useChange()
  const [isCancelled, setCancelled] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    if (isMain) button.current?.focus()
    return stopAsking
  }, [])

  // It was disabled meanwhile.
  useEffect(() => {
    if (isCancelled && !isBusy) button.current?.focus()
  }, [isCancelled, isBusy])

  async function ask(): Promise<void> {
    setCancelled(false)
    await run(async () => {
      const { challenge, passkeyOptions } = await begin()
      const response = await askForPasskey(passkeyOptions)
      if (response) await give({ challenge, response })
      else setCancelled(true)
    })
    onEnd?.()
  }

  return (
    <div class="passkey">
      {shown}
      <button
        ref={button}
        type="button"
        class={isPrimary ? 'primary' : undefined}
        disabled={isBusy}
        onClick={ask}
      >
        {isBusy ? 'One moment…' : action}
      </button>
      <p role="status" class="quiet">
        {isCancelled && 'No passkey was used.'}
      </p>
    </div>
  )
}
