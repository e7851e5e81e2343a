import type { ComponentChildren } from 'preact'
import { Form } from '../form.tsx'
import type { Change } from '../outcome.tsx'
import { Dialog } from '../parts.tsx'

interface Props {
  /** The default is the action as a question. */
  title?: string
  /** The effect, and who it affects. */
  children: ComponentChildren
  action: string
  /** Returns what was done, if that must be said. If it throws, the dialog stays open and shows the error. */
  onConfirm: () => unknown
  onCancel: () => void
  /** The parent's, which says what was done. */
  change?: Change
}

/** Asks before an action that is permanent or affects others. The focus starts on Cancel, and returns on closing. */
export function Confirm({ title, children, action, onConfirm, onCancel, change }: Props) {
  function cancel(): void {
    change?.forget()
    onCancel()
  }
  return (
    <Dialog title={title ?? `${action}?`} onClose={cancel}>
      <div class="confirm-text">{children}</div>
      <Form
        action={action}
        isDanger
        onSubmit={async () => await onConfirm()}
        onCancel={cancel}
        change={change}
      />
    </Dialog>
  )
}
