import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { Copied, Section, Time, Title } from '../parts.tsx'
import { readCompany, rememberCompany } from '../remembered.ts'
import type { Answer, Session } from '../routes.ts'
import { Confirm } from './confirm.tsx'
import { HandleSection } from './handle.tsx'
import { PolicySection } from './policy.tsx'
import type { PageProps } from './shell.tsx'

/** The company's name, handle, second-factor policy, and a button to end all sessions. */
export function CompanyPage({ session, onChanged }: PageProps) {
  const { companyName, companyHandle } = session.accessContext
  /** Updates the remembered company too. */
  function show({ id, name, handle }: Answer<'PATCH /auth/company'>): void {
    const accessContext = { ...session.accessContext, companyName: name, companyHandle: handle }
    onChanged({ ...session, accessContext })
    if (readCompany()?.id === id) rememberCompany({ id, handle, name })
  }
  return (
    <>
      <Title>Company</Title>
      <Facts session={session} />
      <Section id="name" title="Name">
        <Form
          action="Save name"
          onSubmit={async ({ name }) => {
            show(await call('PATCH /auth/company', { body: { name } }))
            return 'Name saved.'
          }}
        >
          {(faults) => (
            <Field
              label="Name"
              name="name"
              autoComplete="organization"
              value={companyName}
              hint="Shown in emails and invitations."
              error={faults['name']}
            />
          )}
        </Form>
      </Section>
      <HandleSection current={companyHandle} onSaved={show} />
      <PolicySection session={session} />
      <AllSessions session={session} />
    </>
  )
}

const SUBSCRIPTION: Record<Session['subscription']['status'], string> = {
  trialing: 'on a trial until',
  active: 'paid until',
  past_due: 'payment due; paid period ended on',
  canceled: 'canceled; paid period ended on',
  suspended: 'suspended; paid period ended on',
}

function Facts({ session: { accessContext, subscription } }: { session: Session }) {
  const { companyId, companyHandle } = accessContext
  const { plan, status, currentPeriodEnd } = subscription
  const verb =
    Date.parse(currentPeriodEnd) > Date.now()
      ? SUBSCRIPTION[status].replace('ended', 'ends')
      : SUBSCRIPTION[status]
  return (
    <Section id="facts" title={accessContext.companyName}>
      <dl class="facts">
        <dt>Handle</dt>
        <dd>{companyHandle ? <Copied text={companyHandle} what="the handle" /> : 'none yet'}</dd>
        <dt>Company ID</dt>
        <dd>
          <Copied text={companyId} what="the company ID" />
        </dd>
        <dt>Plan</dt>
        <dd>
          {plan}, {verb} <Time at={currentPeriodEnd} />
        </dd>
      </dl>
    </Section>
  )
}

function AllSessions({ session }: { session: Session }) {
  const [isAsked, setAsked] = useState(false)
  const change = useChange()
  async function end(): Promise<string> {
    await call('DELETE /auth/company/sessions')
    setAsked(false)
    return 'All other sessions have ended.'
  }
  return (
    <Section id="sessions" title="End all sessions">
      <p class="lead">Everyone except you must sign in again, including service accounts.</p>
      <button type="button" class="grave" onClick={() => setAsked(true)}>
        End all sessions…
      </button>
      <Outcome of={change} isOfForm />
      {isAsked && (
        <Confirm action="End all sessions" onConfirm={end} onCancel={() => setAsked(false)} change={change}>
          <p>
            Every member and service account of {session.accessContext.companyName} is signed out immediately
            on all devices. Only this session stays signed in.
          </p>
        </Confirm>
      )}
    </Section>
  )
}
