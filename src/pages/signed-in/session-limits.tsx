import { useId, useState } from 'preact/hooks'
import { Form } from '../form.tsx'
import { durationOf, Options } from '../parts.tsx'
import { useRead, Waiting } from '../queries.tsx'
import type { Session } from '../routes.ts'
import type { Asked } from './dialog-button.tsx'
import { useSaveSecurity } from './policy.tsx'
import { Setting } from './setting.tsx'

const LIMITS = {
  sessionIdleSeconds: {
    label: 'Idle limit',
    what: 'idle limit',
    asks: 'Sign people out when they are inactive for',
    choices: [900, 1_800, 3_600, 28_800, 43_200],
    means: (time: string) => `People who are inactive for ${time} must sign in again.`,
    ends: 'Sessions that have been unused for longer end immediately.',
  },
  sessionMaxAgeSeconds: {
    label: 'Maximum age',
    what: 'maximum session age',
    asks: 'Sign people out after',
    choices: [43_200, 86_400, 604_800, 2_592_000],
    means: (time: string) =>
      `At the latest ${time} after signing in, people must sign in again, even if they are active.`,
    ends: 'Older sessions end immediately.',
  },
}

interface Props {
  name: keyof typeof LIMITS
  session: Session
}

const DEFAULT = 'Default of this service'

export function LimitSetting({ name, session }: Props) {
  const loaded = useRead('GET /auth/company/security')
  const { data: security } = loaded
  const { label, what, means } = LIMITS[name]
  const seconds = security?.[name] ?? 0
  return (
    <Setting
      label={label}
      what={what}
      value={
        <>
          <Waiting of={loaded} />
          {security && (seconds ? durationOf(seconds) : DEFAULT)}
          {seconds > 0 && <p class="quiet">{means(durationOf(seconds))}</p>}
        </>
      }
      dialog={security && ((form) => <LimitForm {...form} name={name} session={session} current={seconds} />)}
    />
  )
}

/** 0 is the default, which is the longest. Says what a limit does before it is saved. */
function LimitForm({ name, session, current, ...form }: Asked & Props & { current: number }) {
  const { what, asks, choices, means, ends } = LIMITS[name]
  const saveSecurity = useSaveSecurity()
  const id = useId()
  const [chosen, setChosen] = useState(current)
  const options = [0, ...choices, current].map((one) => [one, one ? durationOf(one) : DEFAULT] as const)
  const isShorter = chosen > 0 && (current === 0 || chosen < current)
  const isLonger = chosen !== current && !isShorter
  const ageMs = Date.now() - Date.parse(session.session.createdAt)
  const endsThis = name === 'sessionMaxAgeSeconds' && isShorter && ageMs > chosen * 1000

  async function save(): Promise<string> {
    if (chosen === current) return 'No changes to save.'
    await saveSecurity({ [name]: chosen || null })
    return 'Saved. It takes effect immediately.'
  }

  return (
    <Form {...form} action={`Save ${what}`} isDanger={isLonger} onSubmit={save}>
      <div class="field">
        <label for={id}>{asks}</label>
        <select
          id={id}
          value={chosen}
          autofocus
          aria-describedby={`${id}-effect`}
          onChange={({ currentTarget }) => setChosen(Number(currentTarget.value))}
        >
          <Options of={Object.fromEntries(options)} />
        </select>
      </div>
      <p id={`${id}-effect`} role="status" class="notice">
        {chosen > 0 && means(durationOf(chosen))} {isShorter && ends}
        {endsThis && ' This session is one of them.'}
        {isLonger && 'A stolen or unattended device stays signed in for longer, even in existing sessions.'}
      </p>
      <p class="quiet">Service accounts are exempt.</p>
    </Form>
  )
}
