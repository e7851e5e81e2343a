import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { Dialog } from '../parts.tsx'

interface Props {
  label: string
  value: ComponentChildren
  /** The parent's, if a button in the value uses it too. */
  change?: Change
  /** The form that changes it, in a dialog. */
  children?: (form: { change: Change; onCancel: () => void }) => ComponentChildren
}

/** A name and its value in a `<dl class="settings">`. After a change, the result beside it takes the focus. */
export function Setting({ label, value, change: given, children }: Props) {
  const own = useChange()
  const change = given ?? own
  const { forget, turn } = change
  /** Each success begins a new turn, which closes the dialog. */
  const [openedIn, setOpenedIn] = useState<number | null>(null)
  function show(openIn: number | null): void {
    forget()
    setOpenedIn(openIn)
  }
  const onCancel = () => show(null)
  const what = label.toLowerCase()
  return (
    <div>
      <dt>{label}</dt>
      <dd class="value">{value}</dd>
      {children && (
        <dd>
          <button type="button" class="small" onClick={() => show(turn)}>
            Change<span class="hidden"> {what}</span>
          </button>
          {openedIn === turn && (
            <Dialog title={`Change ${what}`} onClose={onCancel}>
              {children({ change, onCancel })}
            </Dialog>
          )}
        </dd>
      )}
      {children && (
        <dd class="result">
          <Outcome of={change} isOfForm />
        </dd>
      )}
    </div>
  )
}
