import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Form, type Values } from '../form.tsx'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { Dialog } from '../parts.tsx'

interface Props {
  label: string
  /** For the button and its dialog, if the user chose the label. */
  what?: string
  value: ComponentChildren
  /** Without it, the value has no button. */
  onSubmit?: (values: Values) => Promise<string>
  children?: ComponentChildren
  /** A verb, if the dialog asks for a confirmation instead of a new value. */
  act?: string
  isDanger?: boolean
  /** Instead of a form of `children`. */
  dialog?: ((form: { change: Change; onCancel: () => void }) => ComponentChildren) | undefined
  /** The parent's, which says what was done. */
  change?: Change
}

/** A name and its value in a `<dl class="settings">`, and its form in a dialog. The result takes the focus. */
export function Setting(props: Props) {
  const { label, value, onSubmit, children, act, isDanger = false, dialog } = props
  const what = props.what ?? label.toLowerCase()
  const own = useChange()
  const change = props.change ?? own
  const { forget, turn } = change
  /** Each success begins a new turn, which closes the dialog. */
  const [openedIn, setOpenedIn] = useState<number | null>(null)
  function show(openIn: number | null): void {
    forget()
    setOpenedIn(openIn)
  }
  const form = { change, onCancel: () => show(null) }
  return (
    <div>
      <dt>{label}</dt>
      <dd class="value">{value}</dd>
      {(onSubmit ?? dialog) && (
        <dd>
          <button type="button" class={act ? 'grave small' : 'small'} onClick={() => show(turn)}>
            {act ? `${act}…` : 'Change'}
            <span class="hidden"> {what}</span>
          </button>
          {openedIn === turn && (
            <Dialog title={act ? `${act} ${what}?` : `Change ${what}`} onClose={form.onCancel}>
              {onSubmit ? (
                <Form {...form} action={`${act ?? 'Save'} ${what}`} isDanger={isDanger} onSubmit={onSubmit}>
                  {children}
                </Form>
              ) : (
                dialog?.(form)
              )}
            </Dialog>
          )}
        </dd>
      )}
      {!props.change && (
        <dd class="result">
          <Outcome of={change} isOfForm />
        </dd>
      )}
    </div>
  )
}
