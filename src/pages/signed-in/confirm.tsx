import type { ComponentChildren } from 'preact'
import { useChange } from '../data.tsx'
import { Dialog } from '../parts.tsx'

interface Props {
  /** The question. Without it, the action is one. */
  title?: string
  /** What it does, and to whom. */
  children: ComponentChildren
  action: string
  /** What it throws is said in the dialog, which stays open. */
  onConfirm: () => unknown
  onCancel: () => void
}

/** Asks before something that cannot be taken back, or that others notice. The focus is on what changes nothing, and goes back. */
export function Confirm({ title, children, action, onConfirm, onCancel }: Props) {
  const change = useChange()
  return (
    <Dialog title={title ?? `${action}?`} onClose={onCancel}>
      <div class="confirm-text">{children}</div>
      {change.shown}
      <div class="choices">
        <button
          type="button"
          class="danger"
          disabled={change.isBusy}
          onClick={() => change.run(async () => await onConfirm())}
        >
          {change.isBusy ? 'One moment…' : action}
        </button>
        <button type="button" autofocus onClick={onCancel}>
          Cancel
        </button>
      </div>
    </Dialog>
  )
}
