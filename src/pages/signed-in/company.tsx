import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { useChange } from '../data.tsx'
import { Field } from '../form.tsx'
import { Copied, Dialog, Section, Time, Title } from '../parts.tsx'
import { readCompany, rememberCompany } from '../remembered.ts'
import type { Answer, Session } from '../routes.ts'
import { Change } from './change.tsx'
import { HandleSection } from './handle.tsx'
import { PolicySection } from './policy.tsx'
import type { PageProps } from './shell.tsx'

/** The company: its name and handle, the policy on second factors, and an end to all sessions. */
export function CompanyPage({ session, onChanged }: PageProps) {
  const { companyName, companyHandle } = session.accessContext
  /** Also at the next sign-in, on a device that remembers the company. */
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
        <Change
          action="Save name"
          done="The name is saved."
          submit={async ({ name }) => {
            show(await call('PATCH /auth/company', { body: { name } }))
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
        </Change>
      </Section>
      <HandleSection current={companyHandle} onSaved={show} />
      <PolicySection session={session} />
      <AllSessions session={session} />
    </>
  )
}

const SUBSCRIPTION: Record<Session['subscription']['status'], string> = {
  trialing: 'in trial until',
  active: 'paid until',
  past_due: 'payment due; the paid period ended on',
  canceled: 'canceled; the paid period ended on',
  suspended: 'suspended; the paid period ended on',
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
  const [isDone, setDone] = useState(false)
  const { run, isBusy, shown } = useChange()
  const end = () =>
    run(async () => {
      await call('DELETE /auth/company/sessions')
      setAsked(false)
      setDone(true)
    })
  return (
    <Section id="sessions" title="End all sessions">
      <p class="lead">Everyone but you has to sign in again, and so does every service account.</p>
      {!isAsked && shown}
      <button type="button" class="grave" onClick={() => setAsked(true)}>
        End all sessions…
      </button>
      <p role="status" class="done">
        {isDone && 'All sessions but this one have ended.'}
      </p>
      {isAsked && (
        <Dialog title="End all sessions?" onClose={() => setAsked(false)}>
          {shown}
          <p>
            Every member and every service account of {session.accessContext.companyName} is signed out at
            once, on all devices. Only this session goes on.
          </p>
          <div class="choices">
            <button type="button" class="danger" disabled={isBusy} onClick={end}>
              End all sessions
            </button>
            <button type="button" autofocus onClick={() => setAsked(false)}>
              Cancel
            </button>
          </div>
        </Dialog>
      )}
    </Section>
  )
}
