import { CodeTabs } from '../code-tabs.tsx'
import { EXAMPLES } from './example-programs.ts'

export function SendExamples({ companyId }: { companyId: string }) {
  const codes = EXAMPLES.map(({ language, file, run, write }) => ({
    language,
    source: write({ companyId, url: `${location.origin}/api/events/ingest` }),
    lead: (
      <p class="quiet">
        Save this as <code>{file}</code>, then run <code>SIGNING_SECRET=whsec_… {run}</code>
      </p>
    ),
  }))
  return (
    <div class="examples">
      <h3 id="examples">Send a test event</h3>
      <CodeTabs codes={codes} labelledBy="examples" />
    </div>
  )
}
