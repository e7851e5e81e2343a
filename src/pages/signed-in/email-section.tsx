import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import { MailboxProof } from './mailbox-proof.tsx'

/** Asks for another email address; without a second factor, after a code that is mailed to that of today. */
export function EmailSection({ email }: { email: string }) {
  const [newEmail, setNewEmail] = useState('')
  const [step, setStep] = useState<'ask' | 'prove' | 'sent'>('ask')

  async function ask(body: { newEmail: string; mailCode?: string }): Promise<void> {
    await call('POST /auth/email/change', { body })
    setStep('sent')
  }

  async function begin({ newEmail: given }: Values): Promise<void> {
    setNewEmail(given.trim())
    await ask({ newEmail: given.trim() }).catch((error: unknown) => {
      // Whether a code is needed, the service says.
      if (!(error instanceof ApiError) || !error.fields['mailCode']) throw error
      setStep('prove')
    })
  }

  return (
    <Section id="email" title="Email">
      <p class="lead">
        You sign in with <strong>{email}</strong>.
      </p>
      {step === 'prove' ? (
        <>
          <p>
            First we email a code to <strong>{email}</strong>, so that nobody who only knows your password can
            change it to <strong>{newEmail}</strong>.
          </p>
          <MailboxProof
            use="email"
            onStale={() => setStep('ask')}
            onGiven={(mailCode) => ask({ newEmail, mailCode })}
          />
        </>
      ) : (
        <Form key={step} action="Email me a link" onSubmit={begin}>
          {(faults) => (
            <Field
              label="New email"
              name="newEmail"
              type="email"
              autoComplete="email"
              error={faults['newEmail']}
            />
          )}
        </Form>
      )}
      <p role="status" class="done">
        {step === 'sent' &&
          "We've sent a link to the new address. Nothing changes until you open it. If somebody in your company has this address already, the link says so."}
      </p>
    </Section>
  )
}
