import { call } from '../api.ts'
import { Field, type Values } from '../form.tsx'
import { Copied, LOCALE, Section, Time, Title } from '../parts.tsx'
import { useRead } from '../queries.tsx'
import { readCompany, rememberCompany } from '../remembered.ts'
import type { Answer, Session } from '../routes.ts'
import { PolicySetting, Without } from './policy.tsx'
import { LimitSetting } from './session-limits.tsx'
import { Setting } from './setting.tsx'

const SUBSCRIPTION: Record<Session['subscription']['status'], string> = {
  trialing: 'on a trial until',
  active: 'paid until',
  past_due: 'payment due; paid period ended on',
  canceled: 'canceled; paid period ended on',
  suspended: 'suspended; paid period ended on',
}

interface Props {
  session: Session
  onChanged: (changed: Session) => void
}

export function CompanyPage({ session, onChanged }: Props) {
  const { companyId, companyName, companyHandle } = session.accessContext
  const { plan, status, currentPeriodEnd } = session.subscription
  const isOver = Date.parse(currentPeriodEnd) <= Date.now()
  /** Updates the remembered company too. */
  function show({ id, name, handle }: Answer<'PATCH /auth/company'>): void {
    const accessContext = { ...session.accessContext, companyName: name, companyHandle: handle }
    onChanged({ ...session, accessContext })
    if (readCompany()?.id === id) rememberCompany({ id, handle, name })
  }
  async function saveHandle({ handle: typed }: Values): Promise<string> {
    const handle = typed.trim().toLowerCase()
    if (handle === companyHandle) return 'No changes to save.'
    const saved = await call('PATCH /auth/company', { body: { handle } })
    show(saved)
    return `Handle saved. Everyone now signs in with ${saved.handle}.`
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
          <Setting
            label="Handle"
            value={
              <>
                {companyHandle ? <Copied text={companyHandle} what="the handle" /> : 'none yet'}
                <p class="quiet">Members enter it to sign in.</p>
              </>
            }
            isDanger={companyHandle !== null}
            onSubmit={saveHandle}
          >
            <Field
              label="New handle"
              name="handle"
              value={companyHandle ?? ''}
              hint="3 to 40 letters, digits, or hyphens, with a letter first and no hyphen at the end. You can change it five times a day."
              hasFocus
            />
            {companyHandle && <Effect current={companyHandle} />}
          </Setting>
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
          <LimitSetting name="sessionIdleSeconds" session={session} />
          <LimitSetting name="sessionMaxAgeSeconds" session={session} />
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

function useConcerned(kind: 'person' | 'service', what: string): string | null {
  const { data } = useRead('GET /auth/members', { query: { limit: 1, status: 'active', kind } })
  if (!data) return `All ${what}s`
  return data.total === 0
    ? null
    : `${data.total.toLocaleString(LOCALE)} ${what}${data.total === 1 ? '' : 's'}`
}

/** The effect of a new handle on sign-ins, which name the company with it. */
function Effect({ current }: { current: string }) {
  const people = useConcerned('person', 'member')
  const services = useConcerned('service', 'service account')
  return (
    <>
      <p>
        <code>{current}</code> stops working immediately. Nobody is signed out. Your last two handles stay
        reserved for your company, so you can change back.
      </p>
      <p>
        <strong>{people}</strong>: enter the new handle at the next sign-in. Browsers that remember the
        company need no change.
      </p>
      {services && (
        <p>
          <strong>{services}</strong>: programs that send the old handle as <code>company</code> are refused
          until you update them. Programs that send <code>companyId</code> need no change.
        </p>
      )}
    </>
  )
}
