import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Change } from '../outcome.tsx'
import { Dialog } from '../parts.tsx'

/** For the form in a dialog. */
export interface Asked {
  change: Change
  onCancel: () => void
}

interface Props {
  children: ComponentChildren
  class?: string | undefined
  /** For screen readers, if the children do not say it. */
  label?: string
  title: string
  dialog: (form: Asked) => ComponentChildren
  /** Outlives the dialog, and says what was done. */
  change: Change
}

/** A button that opens a form in a dialog, until it is canceled or has succeeded. */
export function DialogButton({ children, class: look, label, title, dialog, change }: Props) {
  const { forget, turn, isBusy } = change
  /** Each success begins a new turn, which closes the dialog. */
  const [openedIn, setOpenedIn] = useState<number | null>(null)
  function show(openIn: number | null): void {
    forget()
    setOpenedIn(openIn)
  }
  const onCancel = () => show(null)
  return (
    <>
      <button type="button" class={look} aria-label={label} aria-disabled={isBusy} onClick={() => show(turn)}>
        {children}
      </button>
      {openedIn === turn && (
        <Dialog title={title} onClose={onCancel}>
          {dialog({ change, onCancel })}
        </Dialog>
      )}
    </>
  )
}
