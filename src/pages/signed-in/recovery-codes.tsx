import { saveFile } from '../api.ts'
import { useLoss } from '../leaving.tsx'
import { CopyButton, StepTitle } from '../parts.tsx'
import type { Session } from '../routes.ts'

interface Props {
  codes: string[]
  session: Session
  onStored: () => void
}

/** New recovery codes, shown until the user confirms that they are stored. */
export function RecoveryCodes({ codes, session, onStored }: Props) {
  const text = `${codes.join('\n')}\n`
  useLoss("Your recovery codes won't be shown again. Have you stored them?")
  function save(): void {
    const { companyName, companyHandle, companyId } = session.accessContext
    const about = [
      `Recovery codes for ${location.origin}`,
      `Company: ${companyName} (${companyHandle ?? companyId})`,
      `Email: ${session.user.email}`,
      'Each code works once instead of a second factor.\n\n',
    ].join('\n')
    saveFile(new Blob([about, text], { type: 'text/plain' }), 'recovery-codes.txt')
  }
  return (
    <div class="fresh">
      <StepTitle>Store your recovery codes</StepTitle>
      <p>
        If you lose your second factor, sign in with your password and one of these codes. Each works once. We
        won't show them again, so store them now in a safe place.
      </p>
      <ul class="codes">
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ul>
      <div class="choices">
        <CopyButton text={text} what="the recovery codes" />
        <button type="button" class="small" onClick={save}>
          Download
        </button>
      </div>
      <div class="choices">
        <button type="button" class="primary" onClick={onStored}>
          I've stored them
        </button>
      </div>
    </div>
  )
}
