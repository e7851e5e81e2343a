import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ApiError } from './api.ts'
import { navigate } from './router.ts'

/** What several pages are made of. */

/** A link within the application. */
export function Link({ to, children }: { to: string; children: ComponentChildren }) {
  return (
    <a
      href={to}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return
        event.preventDefault()
        navigate(to)
      }}
    >
      {children}
    </a>
  )
}

/** The title of a page. The focus goes to it, so that a screen reader begins there. */
export function Title({ children }: { children: string }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${children} · gatehouse`
    heading.current?.focus()
  }, [children])
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  )
}

interface FieldProps {
  label: string
  name: string
  type?: 'text' | 'email' | 'password'
  autoComplete?: string
  value?: string
  hint?: ComponentChildren
  error?: string | undefined
  isOptional?: boolean
}

export function Field(props: FieldProps) {
  const { label, name, type = 'text', autoComplete = 'off', value, hint, error, isOptional = false } = props
  const id = useId()
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ')
  const input = {
    id,
    name,
    autoComplete,
    required: !isOptional,
    spellcheck: false,
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

/** Copies a text, and says so. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState<string | null>(null)
  async function copy(): Promise<void> {
    // There is no clipboard without TLS, and a browser can refuse it.
    const isCopied = await (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
      () => true,
      () => false,
    )
    setDone(isCopied ? 'Copied' : 'Select it, and copy')
    setTimeout(() => setDone(null), 2_000)
  }
  return (
    <button type="button" class="small" onClick={copy} aria-label={`Copy ${what}`}>
      <span aria-live="polite">{done ?? 'Copy'}</span>
    </button>
  )
}

const TO_THE_MINUTE: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'short' }
const TO_THE_HOUR: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: 'numeric',
}

/** A time as people of this browser write it, and exactly on request. */
export function Time({ at, isToTheHour = false }: { at: string; isToTheHour?: boolean }) {
  const format = new Intl.DateTimeFormat(undefined, isToTheHour ? TO_THE_HOUR : TO_THE_MINUTE)
  return (
    <time dateTime={at} title={at}>
      {format.format(new Date(at))}
    </time>
  )
}

interface SectionProps {
  id: string
  title: string
  children: ComponentChildren
}

/** A part of a page, with its heading. */
export function Section({ id, title, children }: SectionProps) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  )
}
