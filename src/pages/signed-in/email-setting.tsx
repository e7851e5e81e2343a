import { useQuery } from '@tanstack/preact-query'
import { useEffect, useRef } from 'preact/hooks'
import { ApiError, call, nullIfGone, session } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { LinkButton, Time } from '../parts.tsx'
import { polled, useReload } from '../queries.tsx'
import { useMailProof } from './mailbox-proof.tsx'
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
  const { prove, dialog } = useMailProof('email')
  const wasPending = useRef(false)
  useEffect(() => {
    if (wasPending.current && !pending) {
      change.forget()
      session.outdated()
    }
    wasPending.current = Boolean(pending)
  }, [pending])

  async function request({ newEmail: typed }: Values): Promise<string> {
    const newEmail = typed.trim()
    await prove(newEmail, (mailCode) => call('POST /auth/email/change', { body: { newEmail, mailCode } }))
    reload('GET /auth/email/change')
    return "We've emailed a link to the new address. Nothing changes until you open it. If someone in your company already uses this address, the page will tell you."
  }
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
          {dialog}
        </>
      }
      dialog={(form) => (
        <Form {...form} action="Email me a link" onSubmit={request}>
          <Field label="New email" name="newEmail" type="email" autoComplete="email" hasFocus />
        </Form>
      )}
    />
  )
}
