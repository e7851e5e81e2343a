import { type ComponentChildren, createContext } from 'preact'
import { useContext, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { invalid } from './api.ts'
import { type Change, Outcome, useChange } from './outcome.tsx'
import { takeFocus } from './parts.tsx'

/** All fields, and what completes "Enter …" if one is empty and its label does not. A form that reads another does not compile. */
const ASKED = {
  assignments: undefined,
  code: 'the code',
  company: 'your company',
  companyName: 'the company name',
  currentPassword: 'your current password',
  email: 'your email',
  emails: undefined,
  handle: 'a handle',
  mailCode: 'the code from the email',
  name: 'a name',
  newEmail: 'your new email',
  newPassword: 'a new password',
  password: 'your password',
  policy: undefined,
  role: undefined,
  secret: 'the signing secret',
}
type FieldName = keyof typeof ASKED
/** Whether the first field of a page takes the focus. On touch screens, that would open a keyboard over the page. */
export const TAKES_FOCUS = matchMedia('(pointer: fine)').matches
/** The fault of an empty field, which is found before anything is sent. */
const MISSING = 'is missing'
/** Empty for fields that the form does not have. */
export type Values = Readonly<Record<FieldName, string>>
/** Of the form, by field name. */
const Faults = createContext<Partial<Record<string, string>>>({})

interface FieldProps {
  label: string
  name: FieldName
  type?: 'text' | 'email' | 'password'
  autoComplete?: string
  value?: string | undefined
  hint?: ComponentChildren
  isOptional?: boolean
  isNumeric?: boolean
  /** Takes the focus when it appears, but not if this changes later. */
  hasFocus?: boolean
  onInput?: (value: string) => void
}

/** The props of the usual email field. */
export const EMAIL = { label: 'Email', name: 'email', type: 'email', autoComplete: 'username' } as const

export function Field(props: FieldProps) {
  const { label, name, type = 'text', autoComplete = 'off', value, hint, isOptional = false } = props
  const error = useContext(Faults)[name]
  const { isNumeric = false, hasFocus = false, onInput } = props
  const id = useId()
  const [isShown, setShown] = useState(false)
  const [whenShown] = useState(() => (hasFocus ? takeFocus : null))
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ')
  const isPassword = type === 'password'
  const input = {
    ref: whenShown,
    id,
    name,
    autoComplete,
    required: !isOptional,
    spellcheck: false,
    autocapitalize: 'none' as const,
    inputMode: isNumeric ? ('numeric' as const) : undefined,
    // Otherwise the browser focuses the first field of a dialog, even a hidden one.
    autofocus: hasFocus,
    defaultValue: value,
    'aria-invalid': error !== undefined,
    'aria-describedby': described || undefined,
    onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => onInput?.(currentTarget.value),
  }
  const inputs = {
    text: <input {...input} type="text" />,
    email: <input {...input} type="email" />,
    password: <input {...input} type="password" />,
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="input">
        {inputs[isPassword && isShown ? 'text' : type]}
        {isPassword && (
          <button type="button" class="quiet show" aria-pressed={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? 'Hide' : 'Show'}
            <span class="hidden"> {label.toLowerCase()}</span>
          </button>
        )}
      </div>
      {hint && (
        <p class="quiet" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error && (
        <p class="error" id={`${id}-error`}>
          {error === MISSING ? `Enter ${ASKED[name] ?? label.toLowerCase()}` : `${label} ${error}`}.
        </p>
      )}
    </div>
  )
}

interface SelectProps {
  label: string
  name?: FieldName
  value: string | number
  onChange: (value: string) => void
  hint?: string
  children: ComponentChildren
}

export function Select({ label, name, value, onChange, hint, children }: SelectProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        name={name}
        value={value}
        aria-describedby={hint && `${id}-hint`}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      >
        {children}
      </select>
      {hint && (
        <p class="quiet" id={`${id}-hint`} aria-live="polite">
          {hint}
        </p>
      )}
    </div>
  )
}

/** For password managers, if the form has no email field. */
export function Username({ email }: { email: string }) {
  return <input class="hidden" autoComplete="username" value={email} readOnly tabIndex={-1} aria-hidden />
}

type NewPasswordProps = Pick<FieldProps, 'label' | 'value' | 'hasFocus'> & {
  name: 'password' | 'newPassword'
}

const MIN_LENGTH = 8

/** A new password. The service decides whether it is strong enough; this only warns about obvious weakness. */
export function NewPassword(props: NewPasswordProps) {
  const [typed, setTyped] = useState(props.value ?? '')
  return (
    <Field
      {...props}
      type="password"
      autoComplete="new-password"
      onInput={setTyped}
      hint={
        <>
          At least {MIN_LENGTH} characters. Four unrelated words work well.
          <span class="strength" role="status">
            {strengthOf(typed)}
          </span>
        </>
      }
    />
  )
}

function strengthOf(password: string): string {
  if (password === '') return ''
  if (password.length < MIN_LENGTH) return `${MIN_LENGTH - password.length} more to go`
  const isOneWord = password.length < 12 && /^(?:[a-z]*\d*|\d*[a-z]*)[^a-z\d]?$/i.test(password)
  return isOneWord || new Set(password).size < 6 ? 'Weak' : ''
}

interface FormProps {
  action: string
  children?: ComponentChildren
  /** Returns what was done, if that must be said. The form then begins again. */
  onSubmit: (values: Values) => Promise<unknown>
  /** The parent's, if it outlives the form and says what was done. */
  change?: Change | undefined
  /** Shown on the button while it is busy. */
  progress?: string | undefined
  isDanger?: boolean
  /** Something else on the page is the primary action. */
  isSecond?: boolean
  /** Without it, the form has no cancel button. */
  onCancel?: (() => void) | undefined
  cancel?: string
}

const EMPTY = Object.fromEntries(Object.keys(ASKED).map((name) => [name, ''])) as unknown as Values

/** Shows errors at their fields, or above the form, and moves the focus there. Dangerous forms start at Cancel. */
export function Form({
  action,
  children,
  onSubmit,
  change,
  progress = 'One moment…',
  isDanger = false,
  isSecond = false,
  onCancel,
  cancel = 'Cancel',
}: FormProps) {
  const form = useRef<HTMLFormElement>(null)
  const own = useChange()
  const { run, isBusy, result, turn } = change ?? own
  useLayoutEffect(() => {
    if (result?.error) form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus()
  }, [result])

  function submit(event: SubmitEvent): void {
    event.preventDefault()
    run(send)
  }

  async function send(): Promise<unknown> {
    if (!form.current) return
    const typed = [...new FormData(form.current)].map(([name, value]) => [name, String(value)])
    const values = { ...EMPTY, ...Object.fromEntries(typed) }
    const missing = [...form.current.querySelectorAll<HTMLInputElement>(':required')].filter(
      ({ value }) => !value.trim(),
    )
    if (missing.length > 0) throw invalid(Object.fromEntries(missing.map(({ name }) => [name, MISSING])))
    return await onSubmit(values)
  }

  const fields = result?.error?.fields ?? {}
  const isAtField = Object.keys(fields).some((name) => form.current?.elements.namedItem(name))
  return (
    <>
      <form key={turn} ref={form} onSubmit={submit} noValidate>
        {result?.error && !isAtField && <Outcome of={change ?? own} />}
        <Faults.Provider value={fields}>{children}</Faults.Provider>
        <div class="choices">
          <button
            type="submit"
            class={isDanger ? 'danger' : isSecond ? undefined : 'primary'}
            // Not `disabled`, because the button would lose the focus that a dialog returns to it.
            aria-disabled={isBusy}
          >
            {isBusy ? progress : action}
          </button>
          {onCancel && (
            <button type="button" autofocus={isDanger} onClick={onCancel}>
              {cancel}
            </button>
          )}
        </div>
      </form>
      {!change && <Outcome of={own} isOfForm />}
    </>
  )
}
