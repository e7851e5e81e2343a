import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from './api.ts'

interface Result {
  text?: string
  error?: ApiError
  /** The control that had the focus when the change started. */
  from: Element | null
}

export type Change = ReturnType<typeof useChange>

/** Runs one change at a time. Busy buttons keep the focus, so more clicks can come. */
export function useChange() {
  const isRunning = useRef(false)
  const [isBusy, setBusy] = useState(false)
  const [result, setResult] = useState<Result | null>(null)
  /** Counts what was said, so that the same words are said again, and forms begin again. */
  const [turn, setTurn] = useState(0)

  /** The change returns what was done, if that must be said. */
  async function run(change: () => Promise<unknown>): Promise<void> {
    if (isRunning.current) return
    isRunning.current = true
    const from = document.activeElement
    setBusy(true)
    setResult(null)
    try {
      const text = await change()
      if (typeof text !== 'string') return
      setResult({ text, from })
      setTurn((before) => before + 1)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      setResult({ error, from })
    } finally {
      isRunning.current = false
      setBusy(false)
    }
  }
  /** Called when a dialog opens or closes, so that it does not show an earlier fault. */
  const forget = () => setResult(null)
  return { run, isBusy, result, turn, forget }
}

interface Props {
  of: Change
  /** The form of the change shows its faults, as long as it is there. */
  isOfForm?: boolean
}

/** Says how a change ended. It takes the focus after a form, and if nothing has it: the control that had it is gone. */
export function Outcome({ of: { result, turn }, isOfForm = false }: Props) {
  const element = useRef<HTMLParagraphElement>(null)
  const followed = useRef<typeof result>(null)
  const form = result?.from?.closest('form')
  const fault = isOfForm && form?.isConnected ? undefined : result?.error
  // After each render, because a list may lose its row only once it has loaded again.
  useLayoutEffect(() => {
    if (followed.current === result || (!result?.text && !fault)) return
    // Its user may have gone on.
    if (!form && document.activeElement !== document.body) return
    followed.current = result
    element.current?.focus()
  })
  if (fault)
    return (
      <p class="error box" role="alert" tabIndex={-1} ref={element}>
        {fault.message}
      </p>
    )
  return (
    <p class="done" role="status" tabIndex={result?.text ? -1 : undefined} ref={element}>
      {result?.text && <span key={turn}>{result.text}</span>}
    </p>
  )
}
