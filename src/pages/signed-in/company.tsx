import { call } from '../api.ts'
import { Field } from '../form.tsx'
import { Copied, Section, Time, Title } from '../parts.tsx'
import { readCompany, rememberCompany } from '../remembered.ts'
import type { Answer, Session } from '../routes.ts'
import { HandleSetting } from './handle-setting.tsx'
import { PolicySetting, Without } from './policy.tsx'
import { Setting } from './setting.tsx'
import type { PageProps } from './shell.tsx'

const SUBSCRIPTION: Record<Session['subscription']['status'], string> = {
  trialing: 'on a trial until',
  active: 'paid until',
  past_due: 'payment due; paid period ended on',
  canceled: 'canceled; paid period ended on',
  suspended: 'suspended; paid period ended on',
}

/** The company's name, handle, second-factor policy, and a button to end all sessions. */
export function CompanyPage({ session, onChanged }: PageProps) {
  const { companyId, companyName, companyHandle } = session.accessContext
  const { plan, status, currentPeriodEnd } = session.subscription
  const isOver = Date.parse(currentPeriodEnd) <= Date.now()
  /** Updates the remembered company too. */
  function show({ id, name, handle }: Answer<'PATCH /auth/company'>): void {
    const accessContext = { ...session.accessContext, companyName: name, companyHandle: handle }
    onChanged({ ...session, accessContext })
    if (readCompany()?.id === id) rememberCompany({ id, handle, name })
  }
  return (
    <>
      <Title>Company</Title>
      <Section id="profile" title="Profile">
        <dl class="settings">
          <Setting
            label="Name"
            value={companyName}
            onSubmit={async ({ name }) => {
              show(await call('PATCH /auth/company', { body: { name } }))
              return 'Name saved.'
            }}
          >
            <Field
              label="Name"
              name="name"
              autoComplete="organization"
              value={companyName}
              hint="Shown in emails and invitations."
              hasFocus
            />
          </Setting>
          <HandleSetting current={companyHandle} onSaved={show} />
          <Setting label="Company ID" value={<Copied text={companyId} what="the company ID" />} />
          <Setting
            label="Plan"
            value={
              <>
                {plan}, {isOver ? SUBSCRIPTION[status] : SUBSCRIPTION[status].replace('ended', 'ends')}{' '}
                <Time at={currentPeriodEnd} />
              </>
            }
          />
        </dl>
      </Section>
      <Section id="security" title="Security">
        <Without />
        <dl class="settings">
          <PolicySetting session={session} />
          <Setting
            label="Sessions"
            value={
              <span class="quiet">
                If you end all sessions, everyone except you must sign in again, including service accounts.
              </span>
            }
            act="End all"
            isDanger
            onSubmit={async () => {
              await call('DELETE /auth/company/sessions')
              return 'All other sessions have ended.'
            }}
          >
            <p>
              Every member and service account of {companyName} is signed out immediately on all devices. Only
              this session stays signed in.
            </p>
          </Setting>
        </dl>
      </Section>
    </>
  )
}
