import { useState } from 'preact/hooks'
import { CopyButton } from '../parts.tsx'
import { EXAMPLES } from './example-programs.ts'

/** Code that sends an event, with the standard library of its language alone. */
export function SendExamples({ companyId }: { companyId: string }) {
  const [language, setLanguage] = useState(EXAMPLES[0]?.language)
  const example = EXAMPLES.find((one) => one.language === language)
  const code = example?.write({ companyId, url: `${location.origin}/api/events/ingest` }) ?? ''
  return (
    <div class="examples">
      <fieldset>
        <legend>Code to send one, with the secret in the variable SIGNING_SECRET</legend>
        {EXAMPLES.map((one) => (
          <label key={one.language}>
            <input
              type="radio"
              name="language"
              checked={one.language === language}
              onChange={() => setLanguage(one.language)}
            />{' '}
            {one.language}
          </label>
        ))}
      </fieldset>
      <p class="quiet">
        Save it as <code>{example?.file}</code>, and run: <code>SIGNING_SECRET=whsec_… {example?.run}</code>
      </p>
      <div class="example">
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
        <pre tabIndex={0}>
          <code>{code}</code>
        </pre>
        <CopyButton text={code} what="the code" />
      </div>
    </div>
  )
}
