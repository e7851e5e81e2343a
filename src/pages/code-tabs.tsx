import type { ComponentChild } from 'preact'
import { useId, useState } from 'preact/hooks'
import { CopyButton, moveFocus } from './parts.tsx'

interface Example {
  language: string
  source: string
  lead?: ComponentChild
}

/** Code in several languages, in tabs (WAI-ARIA tabs pattern). `labelledBy` is the ID of a heading. */
export function CodeTabs({ codes, labelledBy }: { codes: Example[]; labelledBy: string }) {
  const [at, setAt] = useState(0)
  const id = useId()
  const { source = '', lead } = codes[at] ?? {}

  return (
    <>
      <div class="tabs" role="tablist" aria-labelledby={labelledBy} onKeyDown={moveFocus}>
        {codes.map(({ language }, index) => (
          <button
            key={language}
            type="button"
            class="tab"
            role="tab"
            id={`${id}-${language}`}
            aria-controls={id}
            aria-selected={index === at}
            tabIndex={index === at ? 0 : -1}
            onClick={() => setAt(index)}
            onFocus={() => setAt(index)}
          >
            {language}
          </button>
        ))}
      </div>
      <div class="panel" role="tabpanel" id={id} aria-labelledby={`${id}-${codes[at]?.language}`}>
        {lead}
        <Code text={source} what="the code" />
      </div>
    </>
  )
}

export function Code({ text, what }: { text: string; what: string }) {
  return (
    <div class="example">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} what={what} />
    </div>
  )
}
