import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { saveFile } from '../api.ts'
import { useLoss } from '../leaving.tsx'
import { CopyButton, Title } from '../parts.tsx'
import type { Session } from '../routes.ts'

type Answer = { recoveryCodes?: string[] | undefined }

/** `CodesFirst` sets it. */
let receive = async (_done: string, request: Promise<Answer>): Promise<void> => void (await request)

/** Waits for a response with recovery codes, if it is about the first factor. `done` says what it changed. */
export const keepCodes = async (done: string, request: Promise<Answer>) => await receive(done, request)

interface Props {
  session: Session
  path: string
  children: ComponentChildren
}

/**
 * Shows new recovery codes instead of the page, until the user confirms that they are stored. It is above the pages,
 * because a role, a policy, or a closed dialog can remove what sent the request.
 */
export function CodesFirst({ session, path, children }: Props) {
  const [awaited, setAwaited] = useState(0)
  const [shown, setShown] = useState<{ done: string; codes: string[] } | null>(null)
  const isComing = awaited > 0 && 'Your recovery codes are about to appear, and only once.'
  useLoss(shown ? "Your recovery codes won't be shown again. Have you stored them?" : isComing || null)
  // The user has confirmed that they leave.
  useEffect(() => setShown(null), [path])
  useLayoutEffect(() => {
    receive = async (done, request) => {
      setAwaited((count) => count + 1)
      try {
        const { recoveryCodes: codes } = await request
        if (codes) setShown({ done, codes })
      } finally {
        setAwaited((count) => count - 1)
      }
    }
  }, [])

  if (!shown) return children
  const { done, codes } = shown
  const text = `${codes.join('\n')}\n`
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
    <>
      <Title>Store your recovery codes</Title>
      <p class="done">{done}</p>
      <div class="fresh">
        <p>
          If you lose your second factor, sign in with your password and one of these codes. Each works once.
          We won't show them again, so store them now in a safe place.
        </p>
        <ul class="codes">
          {codes.map((code) => (
            <li key={code}>
              <code>{code}</code>
            </li>
          ))}
        </ul>
        <div class="choices">
          <button type="button" class="primary small" onClick={() => setShown(null)}>
            I've stored them
          </button>
          <CopyButton text={text} what="the recovery codes" />
          <button type="button" class="small" onClick={save}>
            Download
          </button>
        </div>
      </div>
    </>
  )
}
