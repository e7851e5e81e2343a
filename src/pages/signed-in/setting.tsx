import type { ComponentChildren } from 'preact'
import { Form, type Values } from '../form.tsx'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { type Asked, DialogButton } from './dialog-button.tsx'

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
  dialog?: ((form: Asked) => ComponentChildren) | undefined
  /** The parent's, which says what was done. */
  change?: Change
}

/** A name and its value in a `<dl class="settings">`, and its form in a dialog. The result takes the focus. */
export function Setting(props: Props) {
  const { label, value, onSubmit, children, act, isDanger = false } = props
  const what = props.what ?? label.toLowerCase()
  const own = useChange()
  const change = props.change ?? own
  const dialog = onSubmit
    ? (form: Asked) => (
        <Form {...form} action={`${act ?? 'Save'} ${what}`} isDanger={isDanger} onSubmit={onSubmit}>
          {children}
        </Form>
      )
    : props.dialog
  return (
    <div>
      <dt>{label}</dt>
      <dd class="value">{value}</dd>
      {dialog && (
        <dd>
          <DialogButton
            class={act ? 'grave small' : 'small'}
            title={act ? `${act} ${what}?` : `Change ${what}`}
            change={change}
            dialog={dialog}
          >
            {act ? `${act}…` : 'Change'}
            <span class="hidden"> {what}</span>
          </DialogButton>
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
