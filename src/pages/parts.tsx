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

interface FormProps {
  /** What the button says, and what it says meanwhile. */
  action: string
  children: (fields: Record<string, string>) => ComponentChildren
  /** Gets the values by name. */
  onSubmit: (values: Record<string, string>) => Promise<void>
  isDanger?: boolean
}

/** A form that says what is wrong, at the field if it is known, and moves the focus there. */
export function Form({ action, children, onSubmit, isDanger = false }: FormProps) {
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
      <button type="submit" class={isDanger ? 'danger' : 'primary'} disabled={isBusy}>
        {isBusy ? 'One moment…' : action}
      </button>
    </form>
  )
}

/** Copies a text, and says so. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [isCopied, setCopied] = useState(false)
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 2_000)
  }
  return (
    <button type="button" class="small" onClick={copy} aria-label={`Copy ${what}`}>
      <span aria-live="polite">{isCopied ? 'Copied' : 'Copy'}</span>
    </button>
  )
}

/** A time as people of this browser write it, and exactly on request. */
export function Time({ at }: { at: string }) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
  return (
    <time dateTime={at} title={at}>
      {format.format(new Date(at))}
    </time>
  )
}

/** Loads what a page shows; says that it waits, and what failed. */
export function useLoaded<Value>(load: () => Promise<Value>, on: unknown[] = []) {
  const [value, setValue] = useState<Value | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    let isCurrent = true
    load().then(
      (loaded) => {
        if (!isCurrent) return
        setValue(loaded)
        setError(null)
      },
      (fault: Error) => isCurrent && setError(fault.message),
    )
    return () => {
      isCurrent = false
    }
  }, [turn, ...on])
  return { value, error, reload: () => setTurn((last) => last + 1) }
}

/** What stands in the place of something that is not loaded yet, or could not be. */
export function Waiting({ error, retry }: { error: string | null; retry: () => void }) {
  if (!error) return <p class="quiet">Loading…</p>
  return (
    <p class="error box" role="alert">
      {error}{' '}
      <button type="button" class="small" onClick={retry}>
        Try again
      </button>
    </p>
  )
}
