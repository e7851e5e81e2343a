import { useLayoutEffect, useState } from 'preact/hooks'
import { Outcome, useChange } from './outcome.tsx'
import { takeFocus } from './parts.tsx'
import { askForPasskey, stopAsking } from './passkeys.ts'
import type { PasskeyChallenge, PasskeyProof } from './routes.ts'

interface Props {
  action: string
  begin: () => PasskeyChallenge | Promise<PasskeyChallenge>
  give: (proof: PasskeyProof) => Promise<void>
  /** The next step, so it takes the focus. */
  isMain?: boolean
  /** Also called after it was canceled or refused. */
  onEnd?: () => void
}

/** A button that opens the browser's passkey dialog. Canceling it is not an error. */
export function PasskeyButton({ action, begin, give, isMain = false, onEnd }: Props) {
  const change = useChange()
  const { run, isBusy } = change
  const [isCancelled, setCancelled] = useState(false)
  useLayoutEffect(() => stopAsking, [])

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
      <Outcome of={change} />
      <button
        ref={isMain ? takeFocus : null}
        type="button"
        class={isMain ? 'primary' : undefined}
        aria-disabled={isBusy}
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
