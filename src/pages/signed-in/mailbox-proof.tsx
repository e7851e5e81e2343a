import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { useChange } from '../data.tsx'
import { Field, Form, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'

interface Props {
  /** What the code is for. */
  use: 'factor' | 'email' | 'admin'
  /** What was wrong with the code that was given last, if that was found out later. */
  fault?: string | undefined
  /** No code is needed any more: another tab has added a factor. */
  onStale: () => void
  onGiven: (code: string) => Promise<void> | void
}

/** Mails a code, and takes it. Whoever gets it finds out whether it is right. */
export function MailboxProof({ use, fault, onStale, onGiven }: Props) {
  const [mailed, setMailed] = useState(0)
  const [hasCode, setHasCode] = useState(false)
  const { run, isBusy, shown } = useChange()
  const mail = () =>
    run(async () => {
      await call('POST /auth/second-factors/mail-code', { body: { for: use } }).catch((error: unknown) => {
        if (error instanceof ApiError && error.code === 'permission_denied') onStale()
        throw error
      })
      setMailed(mailed + 1)
    })

  async function take({ mailCode }: Values): Promise<void> {
    const fields = { mailCode: 'must be the eight digits from the email' }
    // In any script, and with anything between them: the service reads the code.
    if (mailCode.match(/\p{Nd}/gu)?.length !== 8)
      throw new ApiError('invalid_request', "That's not a code.", { fields })
    await onGiven(mailCode.trim())
  }

  if (mailed === 0 && fault === undefined && !hasCode)
    return (
      <>
        {shown}
        <button type="button" class="primary" disabled={isBusy} onClick={mail}>
          {isBusy ? 'One moment…' : 'Email me a code'}
        </button>
        <p class="links">
          <LinkButton onClick={() => setHasCode(true)}>I have a code already</LinkButton>
        </p>
      </>
    )
  return (
    <>
      {shown}
      <p role="status" class="done">
        {mailed > 0 && `We've emailed you ${mailed > 1 ? 'another' : 'a'} code. It works for ten minutes.`}
      </p>
      <Form action="Continue" onSubmit={take} onCancel={mail} cancel="Email me another code">
        {(faults) => (
          <Field
            label="Code from the email"
            name="mailCode"
            autoComplete="one-time-code"
            isNumeric
            hasFocus
            error={faults['mailCode'] ?? (mailed === 0 ? fault : undefined)}
          />
        )}
      </Form>
    </>
  )
}
