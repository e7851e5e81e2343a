import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { navigate } from './router.ts'

/** What several pages are made of. */

/** A button among links: it goes nowhere, but shows something else. */
export function LinkButton({ onClick, children }: { onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={onClick}>
      {children}
    </button>
  )
}

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

/** The title of a step that takes the place of another one. The focus goes to it, so that a screen reader goes on there. */
export function StepTitle({ children }: { children: string }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [])
  return (
    <h3 ref={heading} tabIndex={-1}>
      {children}
    </h3>
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
  /** It takes the place of another one, so that the focus goes to it. */
  hasFocus?: boolean
}

/** A part of a page, with its heading. */
export function Section({ id, title, children, hasFocus = false }: SectionProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (hasFocus) heading.current?.focus()
  }, [hasFocus])
  return (
    <section aria-labelledby={id}>
      <h2 id={id} ref={heading} tabIndex={hasFocus ? -1 : undefined}>
        {title}
      </h2>
      {children}
    </section>
  )
}
