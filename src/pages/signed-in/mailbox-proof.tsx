import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { LinkButton } from '../parts.tsx'

interface Props {
  /** The purpose of the code. */
  use: 'factor' | 'email' | 'admin'
  /** The error of the last code, if it was found later. */
  fault?: string | undefined
  /** A code is no longer needed: a different tab added a factor. */
  onStale: () => void
  onGiven: (code: string) => Promise<void> | void
}

/** Emails a code and passes it on. The receiver checks it. */
export function MailboxProof({ use, fault, onStale, onGiven }: Props) {
  const [mailed, setMailed] = useState(0)
  const [hasCode, setHasCode] = useState(false)
  const change = useChange()
  const { run, isBusy } = change
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
    // Digits of any script, with any separators: the service normalizes the code.
    if (mailCode.match(/\p{Nd}/gu)?.length !== 8)
      throw new ApiError('invalid_request', "That's not a code. Enter the eight digits from the email.", {
        fields,
      })
    await onGiven(mailCode.trim())
  }

  if (mailed === 0 && fault === undefined && !hasCode)
    return (
      <>
        <Outcome of={change} />
        <button type="button" class="primary" aria-disabled={isBusy} onClick={mail}>
          {isBusy ? 'One moment…' : 'Email me a code'}
        </button>
        <p class="links">
          <LinkButton onClick={() => setHasCode(true)}>I already have a code</LinkButton>
        </p>
      </>
    )
  return (
    <>
      <Outcome of={change} />
      <p role="status" class="done">
        {mailed > 0 && `We've emailed you a ${mailed > 1 ? 'new ' : ''}code. It works for 10 minutes.`}
      </p>
      <Form action="Continue" onSubmit={take} onCancel={mail} cancel="Email me a new code">
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
