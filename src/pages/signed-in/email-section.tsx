import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import { MailboxProof } from './mailbox-proof.tsx'

/** Requests a new email. Without a second factor, that takes a code sent to the current one. */
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
      // The service decides whether a code is needed.
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
            To change your email to <strong>{newEmail}</strong>, enter a code that we email to{' '}
            <strong>{email}</strong>. A stolen password isn't enough to change it.
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
          "We've emailed a link to the new address. Nothing changes until you open it. If someone in your company already uses this address, the page will tell you."}
      </p>
    </Section>
  )
}
