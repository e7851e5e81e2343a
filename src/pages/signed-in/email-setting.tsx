import { useQuery } from '@tanstack/preact-query'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call, nullIfGone, session } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { LinkButton, StepTitle, Time } from '../parts.tsx'
import { polled, useReload } from '../queries.tsx'
import type { Asked } from './dialog-button.tsx'
import { MailboxProof, needsMailCode } from './mailbox-proof.tsx'
import { Setting } from './setting.tsx'

export function EmailSetting({ email }: { email: string }) {
  const { data: pending } = useQuery({
    queryKey: ['GET /auth/email/change'],
    queryFn: ({ signal }) => call('GET /auth/email/change', { signal }).catch(nullIfGone),
    refetchOnWindowFocus: true,
    // Its link may be opened in a different browser.
    refetchInterval: (query) => Boolean(query.state.data) && polled(2_000).refetchInterval(query),
  })
  const reload = useReload()
  const change = useChange()
  const wasPending = useRef(false)
  useEffect(() => {
    if (wasPending.current && !pending) {
      change.forget()
      session.outdated()
    }
    wasPending.current = Boolean(pending)
  }, [pending])

  async function withdraw(): Promise<string> {
    const isWithdrawn = await call('DELETE /auth/email/change').then(() => true, nullIfGone)
    // What this says must stay.
    wasPending.current = false
    reload('GET /auth/email/change')
    if (isWithdrawn) return 'Request withdrawn. The link no longer works.'
    session.outdated()
    throw new ApiError('ended', 'This request ended in the meantime. Your current email is shown here.')
  }

  return (
    <Setting
      label="Email"
      change={change}
      value={
        <>
          {email}
          {pending && (
            <p class="quiet">
              Waiting for you to open the link we emailed to <strong>{pending.email}</strong>
              {pending.expiresAt && (
                <>
                  {' '}
                  until <Time at={pending.expiresAt} />
                </>
              )}
              . <LinkButton onClick={() => change.run(withdraw)}>Withdraw</LinkButton>
            </p>
          )}
          <Outcome of={change} isOfForm />
        </>
      }
      dialog={(form) => <NewEmail {...form} email={email} onSent={() => reload('GET /auth/email/change')} />}
    />
  )
}

/** Requests a new email. Without a second factor, that takes a code sent to the current one. */
function NewEmail({ email, onSent, ...form }: Asked & { email: string; onSent: () => void }) {
  const [newEmail, setNewEmail] = useState<string | null>(null)

  async function ask(body: { newEmail: string; mailCode?: string }): Promise<string> {
    await call('POST /auth/email/change', { body })
    onSent()
    return "We've emailed a link to the new address. Nothing changes until you open it. If someone in your company already uses this address, the page will tell you."
  }

  if (newEmail === null)
    return (
      <Form
        {...form}
        action="Email me a link"
        onSubmit={({ newEmail: typed }) =>
          ask({ newEmail: typed.trim() }).catch((error: unknown) => {
            if (!needsMailCode(error)) throw error
            setNewEmail(typed.trim())
          })
        }
      >
        <Field label="New email" name="newEmail" type="email" autoComplete="email" hasFocus />
      </Form>
    )
  return (
    <>
      <StepTitle>Confirm your current email</StepTitle>
      <p>
        To change your email to <strong>{newEmail}</strong>, enter a code that we email to{' '}
        <strong>{email}</strong>. A stolen password isn't enough to change it.
      </p>
      <MailboxProof
        {...form}
        use="email"
        onStale={() => setNewEmail(null)}
        onGiven={(mailCode) => ask({ newEmail, mailCode })}
      />
    </>
  )
}
