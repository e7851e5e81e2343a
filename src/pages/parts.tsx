import { Component, type ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** Components that several pages share. */

/** A button that looks like a link. */
export function LinkButton({ onClick, children }: { onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={onClick}>
      {children}
    </button>
  )
}

/** The page title. It takes the focus, so that screen readers start there. */
export function Title({ children }: { children: string }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => {
    document.title = `${children} · gatehouse`
    heading.current?.focus()
  }, [children])
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  )
}

/** The title of a step that replaces a previous one. It takes the focus, so that screen readers continue there. */
export function StepTitle({ children }: { children: string }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useLayoutEffect(() => heading.current?.focus(), [])
  return (
    <h3 ref={heading} tabIndex={-1}>
      {children}
    </h3>
  )
}

interface DialogProps {
  title: string
  onClose: () => void
  children: ComponentChildren
}

/** Dialogs that the page closed, not the user: a new dialog covers them, or they were removed. */
const closed = new WeakSet<HTMLDialogElement>()

function close(dialog: HTMLDialogElement): void {
  closed.add(dialog)
  dialog.close()
}

/** Open while mounted. A dialog that was already open returns after it. The browser focuses the first control. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  // A layout effect, because after the next frame the focus may have moved, both on opening and on closing.
  useLayoutEffect(() => {
    const own = dialog.current
    const before = document.activeElement
    const below = document.querySelector<HTMLDialogElement>('dialog[open]')
    if (below) close(below)
    own?.showModal()
    return () => {
      if (own) close(own)
      if (below?.isConnected) {
        closed.delete(below)
        below.showModal()
      }
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  // The close event is late: the dialog can be open again.
  const tell = ({ currentTarget }: { currentTarget: HTMLDialogElement }) => {
    if (!closed.has(currentTarget) && !currentTarget.open) onClose()
  }
  return (
    <dialog ref={dialog} aria-label={title} onClose={tell}>
      <h2>{title}</h2>
      {children}
    </dialog>
  )
}

/** Copies a text, or selects the text next to it if that fails. Losing the focus resets the label. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [isCopied, setCopied] = useState<boolean | null>(null)
  const button = useRef<HTMLButtonElement>(null)
  async function copy(): Promise<void> {
    // The clipboard requires TLS, and the browser can refuse it.
    const isDone = await (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
      () => true,
      () => false,
    )
    const shown = button.current?.parentElement?.querySelector('code')
    if (!isDone && shown) getSelection()?.selectAllChildren(shown)
    setCopied(isDone)
  }
  return (
    <>
      <button
        type="button"
        class="small"
        ref={button}
        onClick={copy}
        onBlur={() => setCopied(null)}
        aria-label={`Copy ${what}`}
      >
        {isCopied === null ? 'Copy' : isCopied ? <span class="tick">Copied</span> : COPY_YOURSELF}
      </button>
      {/* Screen readers announce only the button's name. */}
      <span class="hidden" role="status">
        {isCopied === null ? '' : isCopied ? `Copied ${what}` : COPY_YOURSELF}
      </span>
    </>
  )
}

const COPY_YOURSELF = "Couldn't copy – press Ctrl+C"

/** A value with a copy button. */
export function Copied({ text, what, method }: { text: string; what: string; method?: string }) {
  return (
    <span class="copied">
      {method && <span class="quiet">{method} </span>}
      <code>{text}</code> <CopyButton text={text} what={what} />
    </span>
  )
}

const TO_THE_MINUTE: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'short' }
const TO_THE_HOUR: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: 'numeric',
}
const formats = {
  second: new Intl.DateTimeFormat(undefined, { ...TO_THE_MINUTE, timeStyle: 'medium' }),
  minute: new Intl.DateTimeFormat(undefined, TO_THE_MINUTE),
  hour: new Intl.DateTimeFormat(undefined, TO_THE_HOUR),
}

interface TimeProps {
  at: string
  isToTheHour?: boolean
  isToTheSecond?: boolean
}

/** A time in the browser's locale, with the exact time as its tooltip. */
export function Time({ at, isToTheHour = false, isToTheSecond = false }: TimeProps) {
  const format = isToTheHour ? formats.hour : isToTheSecond ? formats.second : formats.minute
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
  /** It replaces a previous section, so it takes the focus. */
  hasFocus?: boolean
  /** Next to the title. */
  aside?: ComponentChildren
}

export function Section({ id, title, children, hasFocus = false, aside }: SectionProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (hasFocus) heading.current?.focus()
  }, [hasFocus])
  return (
    <section class="part" aria-labelledby={id}>
      <div class="heading">
        <h2 id={id} ref={heading} tabIndex={hasFocus ? -1 : undefined}>
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  )
}

/** Replaces a page that crashed. */
export class Boundary extends Component<{ children: ComponentChildren }, { hasFailed: boolean }> {
  override state = { hasFailed: false }

  override componentDidCatch(error: unknown): void {
    console.error(error)
    this.setState({ hasFailed: true })
  }

  override render() {
    if (!this.state.hasFailed) return this.props.children
    return (
      <main class="card">
        <Title>Something went wrong on our side</Title>
        <p>This page stopped working. Everything you saved is safe.</p>
        <button type="button" class="primary" onClick={() => location.reload()}>
          Reload the page
        </button>
      </main>
    )
  }
}
