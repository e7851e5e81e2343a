import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { Dialog, LinkButton } from '../parts.tsx'

interface Props {
  use: 'factor' | 'email' | 'admin'
  /** A code is no longer needed: a different tab added a factor. */
  onStale: () => void
  onGiven: (code: string) => Promise<unknown>
  /** The parent's, if it says what the code has changed. */
  change?: Change
  onCancel?: () => void
}

/** Emails a code and passes it on. The receiver checks it. */
export function MailboxProof({ use, onStale, onGiven, change, onCancel }: Props) {
  const [hasCode, setHasCode] = useState(false)
  const mailing = useChange()
  const { run, isBusy, turn: mailed } = mailing
  const mail = () =>
    run(async () => {
      await call('POST /auth/second-factors/mail-code', { body: { for: use } }).catch((error: unknown) => {
        if (error instanceof ApiError && error.code === 'permission_denied') onStale()
        throw error
      })
      return `We've emailed you a ${mailed > 0 ? 'new ' : ''}code. It works for 10 minutes.`
    })

  const isAsked = mailed > 0 || hasCode
  return (
    <>
      <Outcome of={mailing} />
      {isAsked ? (
        <Form
          action="Continue"
          onSubmit={({ mailCode }) => onGiven(mailCode.trim())}
          onCancel={mail}
          cancel="Email me a new code"
          change={change}
        >
          <Field
            label="Code from the email"
            name="mailCode"
            autoComplete="one-time-code"
            isNumeric
            hasFocus
          />
        </Form>
      ) : (
        <button type="button" class="primary" aria-disabled={isBusy} onClick={mail}>
          {isBusy ? 'One moment…' : 'Email me a code'}
        </button>
      )}
      {(!isAsked || onCancel) && (
        <p class="links">
          {!isAsked && <LinkButton onClick={() => setHasCode(true)}>I already have a code</LinkButton>}
          {onCancel && <LinkButton onClick={onCancel}>Cancel</LinkButton>}
        </p>
      )}
    </>
  )
}

interface Asked {
  whom: string
  give: (mailCode?: string) => Promise<void>
  cancel: () => void
}

export const needsMailCode = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.fields['mailCode'] !== undefined

/** Asks an admin without a second factor for an emailed code before someone becomes an admin. */
export function useAdminProof() {
  const [asked, setAsked] = useState<Asked | null>(null)

  /** The service decides whether the change needs a code. */
  async function prove<Result>(
    whom: string,
    change: (mailCode?: string) => Promise<Result>,
  ): Promise<Result> {
    return await change().catch((error: unknown) => {
      if (!needsMailCode(error)) throw error
      return new Promise<Result>((resolve, reject) =>
        setAsked({
          whom,
          async give(mailCode) {
            await change(mailCode).then(resolve, (fault: unknown) => {
              // The form of the code shows what is wrong with it.
              if (needsMailCode(fault)) throw fault
              reject(fault)
            })
            setAsked(null)
          },
          cancel() {
            setAsked(null)
            reject(new ApiError('canceled', 'Without the code, nobody becomes an admin.'))
          },
        }),
      )
    })
  }

  const dialog = asked && (
    <Dialog title="Confirm the new admin" onClose={asked.cancel}>
      <p>
        To make <strong>{asked.whom}</strong> an admin, enter a code that we email to you. A stolen password
        isn't enough to add an admin.
      </p>
      <MailboxProof
        use="admin"
        onStale={() => asked.give().catch(asked.cancel)}
        onGiven={asked.give}
        onCancel={asked.cancel}
      />
    </Dialog>
  )
  return { prove, dialog }
}
