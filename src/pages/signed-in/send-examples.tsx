import { useRef, useState } from 'preact/hooks'
import { CopyButton } from '../parts.tsx'
import { EXAMPLES } from './example-programs.ts'

/** Example programs in tabs (WAI-ARIA tabs pattern). */
export function SendExamples({ companyId }: { companyId: string }) {
  const [language, setLanguage] = useState(EXAMPLES[0]?.language ?? '')
  const tabs = useRef<HTMLDivElement>(null)
  const example = EXAMPLES.find((one) => one.language === language)
  const code = example?.write({ companyId, url: `${location.origin}/api/events/ingest` }) ?? ''

  function move(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    const at = EXAMPLES.findIndex((one) => one.language === language)
    const next = (at + step + EXAMPLES.length) % EXAMPLES.length
    setLanguage(EXAMPLES[next]?.language ?? '')
    tabs.current?.querySelectorAll('button')[next]?.focus()
  }

  return (
    <div class="examples">
      <h3 id="examples">Send a test event</h3>
      <div class="tabs" role="tablist" aria-labelledby="examples" ref={tabs} onKeyDown={move}>
        {EXAMPLES.map((one) => (
          <button
            key={one.language}
            type="button"
            class="tab"
            role="tab"
            id={`tab-${one.file}`}
            aria-controls="example"
            aria-selected={one.language === language}
            tabIndex={one.language === language ? 0 : -1}
            onClick={() => setLanguage(one.language)}
          >
            {one.language}
          </button>
        ))}
      </div>
      <div class="panel" role="tabpanel" id="example" aria-labelledby={`tab-${example?.file}`}>
        <p class="quiet">
          Save this as <code>{example?.file}</code>, then run{' '}
          <code>SIGNING_SECRET=whsec_… {example?.run}</code>
        </p>
        <div class="example">
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
          <pre tabIndex={0}>
            <code>{code}</code>
          </pre>
          <CopyButton text={code} what="the code" />
        </div>
      </div>
    </div>
  )
}
