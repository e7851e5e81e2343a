import type { ComponentChildren } from 'preact'
import { Dialog } from '../parts.tsx'
import { useChange } from '../queries.tsx'

interface Props {
  /** The default is the action as a question. */
  title?: string
  /** The effect, and who it affects. */
  children: ComponentChildren
  action: string
  /** If it throws, the dialog stays open and shows the error. */
  onConfirm: () => unknown
  onCancel: () => void
}

/** Asks before an action that is permanent or affects others. The focus starts on Cancel, and returns on closing. */
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
          aria-disabled={change.isBusy}
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
