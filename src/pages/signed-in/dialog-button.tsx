import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Form } from '../form.tsx'
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
  onClosed?: () => void
}

/** A button that opens a form in a dialog, until it is canceled or has succeeded. */
export function DialogButton({ children, class: look, label, title, dialog, change, onClosed }: Props) {
  const { forget, turn, isBusy } = change
  /** Each success begins a new turn, which closes the dialog. */
  const [openedIn, setOpenedIn] = useState<number | null>(null)
  function show(openIn: number | null): void {
    forget()
    if (openIn === null) onClosed?.()
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

interface ConfirmProps {
  label: string
  /** Completes the label. */
  of: string
  isGrave?: boolean
  change: Change
  onConfirm: () => Promise<string>
  /** The effect, and who it affects. */
  children: ComponentChildren
}

/** A small button whose act is confirmed first. */
export function ConfirmButton({ label, of, isGrave, change, onConfirm, children }: ConfirmProps) {
  return (
    <DialogButton
      class={isGrave ? 'small grave' : 'small'}
      label={`${label} ${of}`}
      title={`${label} ${of}?`}
      change={change}
      dialog={(form) => (
        <Form {...form} action={label} isDanger onSubmit={onConfirm}>
          {children}
        </Form>
      )}
    >
      {label}
    </DialogButton>
  )
}
