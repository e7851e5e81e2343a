import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { Dialog, LinkButton } from '../parts.tsx'

/** The changes that require a code. Each is completed by a name. */
const ACTS = { admin: 'add the admin', email: 'change your email to', factor: 'add' }

interface Asked {
  act: string
  name: string
  give: (mailCode?: string) => Promise<void>
  cancel: () => void
}

const needsMailCode = (error: unknown) => error instanceof ApiError && error.fields['mailCode'] !== undefined

/** Asks users without a second factor for an emailed code before a change. */
export function useMailProof(use: keyof typeof ACTS) {
  const [asked, setAsked] = useState<Asked | null>(null)
  const act = ACTS[use]

  /** The service decides whether the change needs a code. */
  async function prove<Result>(
    name: string,
    change: (mailCode?: string) => Promise<Result>,
  ): Promise<Result> {
    return await change().catch((error: unknown) => {
      if (!needsMailCode(error)) throw error
      return new Promise<Result>((resolve, reject) =>
        setAsked({
          act,
          name,
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
            reject(new ApiError('canceled', `Without the code, you can't ${act} ${name}.`))
          },
        }),
      )
    })
  }
  return { prove, dialog: asked && <MailedCode use={use} {...asked} /> }
}

function MailedCode({ use, act, name, give, cancel }: Asked & { use: keyof typeof ACTS }) {
  const [hasCode, setHasCode] = useState(false)
  const mailing = useChange()
  const { run, isBusy, turn: mailed } = mailing
  const mail = () =>
    run(async () => {
      await call('POST /auth/second-factors/mail-code', { body: { for: use } }).catch((error: unknown) => {
        // A code is no longer needed: a different tab added a factor.
        if (error instanceof ApiError && error.code === 'permission_denied') give().catch(cancel)
        throw error
      })
      return `We've emailed you a ${mailed > 0 ? 'new ' : ''}code. It works for 10 minutes.`
    })

  const isAsked = mailed > 0 || hasCode
  return (
    <Dialog title="Confirm with a code" onClose={cancel}>
      <p>
        To {act} <strong>{name}</strong>, enter a code that we email to your current address. A stolen
        password isn't enough.
      </p>
      <Outcome of={mailing} />
      {isAsked ? (
        <Form
          action="Continue"
          onSubmit={({ mailCode }) => give(mailCode.trim())}
          onCancel={mail}
          cancel="Email me a new code"
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
      <p class="links">
        {!isAsked && <LinkButton onClick={() => setHasCode(true)}>I already have a code</LinkButton>}
        <LinkButton onClick={cancel}>Cancel</LinkButton>
      </p>
    </Dialog>
  )
}
