import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

/** A button that looks like a link. */
export function LinkButton({ onClick, children }: { onClick: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={onClick}>
      {children}
    </button>
  )
}

/** As a `ref`: focuses an element when it appears, before the next frame, so that no focus is taken from someone who types. */
export const takeFocus = (element: HTMLElement | null) => element?.focus()

/** The link disappears, so the first field of the filter takes the focus. */
export const ClearFilters = ({ path }: { path: string }) => (
  <a href={path} onClick={() => takeFocus(document.querySelector('search input'))}>
    Clear filters
  </a>
)

/** Of a `<select>`: values with their words. Each has its value, because page translators replace the words. */
export function Options({ of }: { of: Record<string, string> }) {
  return Object.entries(of).map(([value, words]) => (
    <option key={value} value={value}>
      {words}
    </option>
  ))
}

/** The page title. It takes the focus, so that screen readers start there. */
export function Title({ children }: { children: string }) {
  useLayoutEffect(() => {
    document.title = `${children} · gatehouse`
  }, [children])
  return (
    <h1 key={children} ref={takeFocus} tabIndex={-1}>
      {children}
    </h1>
  )
}

interface DialogProps {
  title: string
  onClose: () => void
  children: ComponentChildren
}

/** The result of a dialog that the page closed, not the user: a new dialog covers it, or it was removed. */
const BY_PAGE = 'by page'

/** Open while mounted. A dialog that was already open returns after it. The browser focuses the first control. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  // A layout effect, because after the next frame the focus may have moved, both on opening and on closing.
  useLayoutEffect(() => {
    const own = dialog.current
    const before = document.activeElement
    const below = document.querySelector<HTMLDialogElement>('dialog[open]')
    below?.close(BY_PAGE)
    own?.showModal()
    return () => {
      own?.close(BY_PAGE)
      if (below?.isConnected) {
        below.returnValue = ''
        below.showModal()
      }
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  // The close event is late: the dialog can be open again.
  const tell = ({ currentTarget }: { currentTarget: HTMLDialogElement }) => {
    if (currentTarget.returnValue !== BY_PAGE && !currentTarget.open) onClose()
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
        {/* Keys, because page translators replace text nodes. */}
        <span key={isCopied} class={isCopied ? 'tick' : undefined}>
          {isCopied === null ? 'Copy' : isCopied ? 'Copied' : COPY_YOURSELF}
        </span>
      </button>
      {/* Screen readers announce only the button's name. */}
      <span class="hidden" role="status">
        <span key={isCopied}>{isCopied === null ? '' : isCopied ? `Copied ${what}` : COPY_YOURSELF}</span>
      </span>
    </>
  )
}

const COPY_YOURSELF = "Couldn't copy – press Ctrl+C"

export function Copied({ text, what, method }: { text: string; what: string; method?: string }) {
  return (
    <span class="copied">
      {method && <span class="quiet">{method} </span>}
      <code>{text}</code> <CopyButton text={text} what={what} />
    </span>
  )
}

/** Moves the focus between the buttons of a toolbar or the tabs of a list, from the last to the first. */
export function moveFocus(event: KeyboardEvent & { currentTarget: Element }): void {
  const buttons = [...event.currentTarget.querySelectorAll('button')]
  const at = buttons.indexOf(event.target as HTMLButtonElement)
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key]
  if (to === undefined) return
  event.preventDefault()
  buttons.at(to % buttons.length)?.focus()
}

/** A name and its value, in a `<dl class="facts">`. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  )
}

const { locale, hourCycle } = new Intl.DateTimeFormat(undefined, { hour: 'numeric' }).resolvedOptions()
/** The page's language, so that dates match its words, with the user's region and clock. */
export const LOCALE = `en-${new Intl.Locale(locale).maximize().region ?? 'US'}-u-hc-${hourCycle}`

export const formats = {
  hour: new Intl.DateTimeFormat(LOCALE, { year: 'numeric', month: 'short', day: 'numeric', hour: 'numeric' }),
  minute: new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'short' }),
  exact: new Intl.DateTimeFormat(LOCALE, { dateStyle: 'medium', timeStyle: 'long' }),
}
export const LIST = new Intl.ListFormat('en')

const UNITS = { day: 86_400, hour: 3_600, minute: 60, second: 1 }

/** In the largest unit that needs no fraction. */
export function durationOf(seconds: number): string {
  const [unit, size] = Object.entries(UNITS).find(([, size]) => seconds % size === 0) ?? ['second', 1]
  return (seconds / size).toLocaleString(LOCALE, { style: 'unit', unit, unitDisplay: 'long' })
}
const ago = new Intl.RelativeTimeFormat(LOCALE)
const MINUTE_MS = 60_000

function inWords(minutes: number): string {
  if (minutes < 1) return 'just now'
  return minutes < 60 ? ago.format(-minutes, 'minute') : ago.format(-Math.floor(minutes / 60), 'hour')
}

const said = new WeakMap<HTMLTimeElement, string>()

/** Sets the text without Preact, which would look for the text nodes that page translators replace. */
function sayTime(time: HTMLTimeElement, isToTheHour = false): void {
  const at = new Date(time.dateTime)
  const minutes = Math.floor((Date.now() - at.getTime()) / MINUTE_MS)
  // Clocks can differ by a minute.
  const isRecent = !isToTheHour && minutes >= -1 && minutes < 24 * 60
  const text = isRecent ? inWords(minutes) : formats[isToTheHour ? 'hour' : 'minute'].format(at)
  if (said.get(time) === text) return
  said.set(time, text)
  time.textContent = text
  time.classList.toggle('ago', isRecent)
}

setInterval(() => {
  for (const time of document.querySelectorAll<HTMLTimeElement>('time.ago')) sayTime(time)
}, MINUTE_MS)

/** A time, relative to now during the next day. The style sheet adds the title for screen readers and on paper. */
export function Time({ at, isToTheHour = false }: { at: string; isToTheHour?: boolean }) {
  return (
    <time
      dateTime={at}
      title={isToTheHour ? undefined : formats.exact.format(new Date(at))}
      ref={(time) => {
        if (time) sayTime(time, isToTheHour)
      }}
    />
  )
}

interface SectionProps {
  id: string
  title: string
  children: ComponentChildren
  /** It replaces a previous section, so it takes the focus. */
  hasFocus?: boolean
  aside?: ComponentChildren
}

export function Section({ id, title, children, hasFocus = false, aside }: SectionProps) {
  return (
    <section class="part" aria-labelledby={id}>
      <div class="heading">
        <h2 id={id} ref={hasFocus ? takeFocus : null} tabIndex={hasFocus ? -1 : undefined}>
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  )
}
