import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ApiError } from './api.ts'

/** Fields, and forms that say what is wrong. */

interface FieldProps {
  label: string
  name: string
  type?: 'text' | 'email' | 'password'
  autoComplete?: string
  value?: string
  hint?: ComponentChildren
  error?: string | undefined
  isOptional?: boolean
  /** Digits alone are typed into it. */
  isNumeric?: boolean
  /** It takes the focus when it appears. */
  hasFocus?: boolean
}

export function Field(props: FieldProps) {
  const { label, name, type = 'text', autoComplete = 'off', value, hint, error, isOptional = false } = props
  const { isNumeric = false, hasFocus = false } = props
  const id = useId()
  const element = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (hasFocus) element.current?.focus()
  }, [hasFocus])
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ')
  const input = {
    ref: element,
    id,
    name,
    autoComplete,
    required: !isOptional,
    spellcheck: false,
    inputMode: isNumeric ? ('numeric' as const) : undefined,
    defaultValue: value,
    'aria-invalid': error !== undefined,
    'aria-describedby': described || undefined,
  }
  const inputs = {
    text: () => <input {...input} type="text" />,
    email: () => <input {...input} type="email" />,
    password: () => <input {...input} type="password" />,
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {inputs[type]()}
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p class="error" id={`${id}-error`}>
          {label} {error}.
        </p>
      )}
    </div>
  )
}

type NewPasswordProps = Pick<FieldProps, 'label' | 'name' | 'error'>

/** A password that somebody chooses. */
export function NewPassword(props: NewPasswordProps) {
  const hint = 'At least 8 characters that nobody guesses: four words that have nothing to do with you, say.'
  return <Field {...props} type="password" autoComplete="new-password" hint={hint} />
}

interface FormProps {
  /** What the button says, and what it says meanwhile. */
  action: string
  children: (fields: Record<string, string>) => ComponentChildren
  /** Gets the values by name. */
  onSubmit: (values: Record<string, string>) => Promise<void>
  isDanger?: boolean
  /** Without it there is no button to cancel. */
  onCancel?: () => void
  cancel?: string
}

/** A form that says what is wrong, at the field if it is known, and moves the focus there. */
export function Form(props: FormProps) {
  const { action, children, onSubmit, isDanger = false, onCancel, cancel = 'Cancel' } = props
  const form = useRef<HTMLFormElement>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>('[aria-invalid=true], [role=alert]')?.focus()
  }, [error])

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    if (isBusy || !form.current) return
    const values = Object.fromEntries(
      [...new FormData(form.current)].map(([name, value]) => [name, String(value)]),
    )
    const missing = [...form.current.querySelectorAll<HTMLInputElement>(':required')].filter(
      ({ value }) => !value,
    )
    if (missing.length > 0) {
      const fields = Object.fromEntries(missing.map(({ name }) => [name, 'is missing']))
      return setError(new ApiError('invalid_request', 'Fill in what is missing.', { fields }))
    }
    setBusy(true)
    setError(null)
    try {
      await onSubmit(values)
    } catch (fault) {
      if (!(fault instanceof ApiError)) throw fault
      setError(fault)
    } finally {
      setBusy(false)
    }
  }

  const names = new Set([...(form.current?.elements ?? [])].map((element) => element.getAttribute('name')))
  const isAtField = Object.keys(error?.fields ?? {}).some((name) => names.has(name))
  return (
    <form ref={form} onSubmit={submit} noValidate>
      {error && !isAtField && (
        <p class="error box" role="alert" tabIndex={-1}>
          {error.message}
        </p>
      )}
      {children(error?.fields ?? {})}
      <div class="choices">
        <button type="submit" class={isDanger ? 'danger' : 'primary'} disabled={isBusy}>
          {isBusy ? 'One moment…' : action}
        </button>
        {onCancel && (
          <button type="button" onClick={onCancel}>
            {cancel}
          </button>
        )}
      </div>
    </form>
  )
}
