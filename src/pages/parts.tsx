import { Component, type ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** What several pages are made of. */

/** A button among links: it goes nowhere, but shows something else. */
export function LinkButton({ onClick, children }: { onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={onClick}>
      {children}
    </button>
  )
}

/** The title of a page. The focus goes to it, so that a screen reader begins there. */
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

/** The title of a step that takes the place of another one. The focus goes to it, so that a screen reader goes on there. */
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

/** Dialogs that the page closed, not their user: because another one covers them, or because they are removed. */
const closed = new WeakSet<HTMLDialogElement>()

function close(dialog: HTMLDialogElement): void {
  closed.add(dialog)
  dialog.close()
}

/**
 * A dialog, open for as long as it is there; one that was open already comes back after it. The browser gives the focus to
 * its first field, or its first button.
 */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  // Not an effect after the next frame, when the focus may be elsewhere, neither to open nor to give the focus back.
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
  // The browser tells later that it was closed: by then it can be open again.
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

/** Copies a text, and says so on the button until it is left; if it cannot, the text that stands beside it is selected. */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [isCopied, setCopied] = useState<boolean | null>(null)
  const button = useRef<HTMLButtonElement>(null)
  async function copy(): Promise<void> {
    // There is no clipboard without TLS, and a browser can refuse it.
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
      {/* A screen reader says the name of a button alone. */}
      <span class="hidden" role="status">
        {isCopied === null ? '' : isCopied ? `Copied ${what}` : COPY_YOURSELF}
      </span>
    </>
  )
}

const COPY_YOURSELF = "Couldn't copy – press Ctrl+C"

/** A value that is given to programs, with a button to copy it. */
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
  minute: new Intl.DateTimeFormat(undefined, TO_THE_MINUTE),
  hour: new Intl.DateTimeFormat(undefined, TO_THE_HOUR),
}

/** A time as people of this browser write it, and exactly on request. */
export function Time({ at, isToTheHour = false }: { at: string; isToTheHour?: boolean }) {
  return (
    <time dateTime={at} title={at}>
      {formats[isToTheHour ? 'hour' : 'minute'].format(new Date(at))}
    </time>
  )
}

interface SectionProps {
  id: string
  title: string
  children: ComponentChildren
  /** It takes the place of another one, so that the focus goes to it. */
  hasFocus?: boolean
  /** Beside the title. */
  aside?: ComponentChildren
}

/** A part of a page, with its heading. */
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

/** In place of a page that has failed. */
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
        <p>The page has stopped working. Nothing that was saved is lost.</p>
        <button type="button" class="primary" onClick={() => location.reload()}>
          Reload the page
        </button>
      </main>
    )
  }
}
