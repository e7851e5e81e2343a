import type { ComponentChildren } from 'preact'

interface Props {
  /** What it does. */
  children: ComponentChildren
  action: string
  isBusy: boolean
  onConfirm: () => void
  onCancel: () => void
}

/** Says what cannot be taken back before it is done. */
export function Confirm({ children, action, isBusy, onConfirm, onCancel }: Props) {
  return (
    <div class="notice confirm">
      <p>{children}</p>
      <div class="choices">
        <button type="button" class="danger small" disabled={isBusy} onClick={onConfirm}>
          {action}
        </button>
        <button type="button" class="small" disabled={isBusy} onClick={onCancel}>
          Cancel
        </button>
      </div>
    </div>
  )
}
