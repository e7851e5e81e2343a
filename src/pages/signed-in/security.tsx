import { useRef, useState } from 'preact/hooks'
import { call, type SecondFactors, type Security, type Session } from '../api.ts'
import { Form } from '../form.tsx'
import { useLoaded, Waiting } from '../loading.tsx'
import { Link, Section, Title } from '../parts.tsx'

type Policy = Security['secondFactor']

/** From the mildest to the strictest. */
const CHOICES: { policy: Policy; title: string; means: string }[] = [
  {
    policy: 'optional',
    title: 'Everybody chooses',
    means: 'Members can add a second factor on the page of their account. Nobody has to.',
  },
  {
    policy: 'admins',
    title: 'Admins need one',
    means: 'All people with the role admin, who can change members, secrets and this page.',
  },
  {
    policy: 'everyone',
    title: 'Everyone needs one',
    means: 'All people of the company. Servers are not asked.',
  },
]
const strictnessOf = (policy: Policy) => CHOICES.findIndex((choice) => choice.policy === policy)

/** The policy of the company on second factors. */
export function SecurityPage({ session }: { session: Session }) {
  const loaded = useLoaded(() => call<Security>('/auth/company/security', { method: 'GET' }))
  const own = useLoaded(() => call<SecondFactors>('/auth/second-factors', { method: 'GET' }))
  const [saved, setSaved] = useState<Security | null>(null)
  const security = saved ?? loaded.value
  const isWithout = own.value?.secondFactors.length === 0
  const isSelf = (policy: Policy) => isWithout && holds(policy, session)
  return (
    <>
      <Title>Company security</Title>
      <Section id="policy" title="Second factors">
        <p class="lead">
          A password alone lets everybody in who learns it. The <Link to="/members">list of members</Link>{' '}
          shows who has a second factor.
        </p>
        <Waiting of={loaded} />
        {security && (
          <PolicyForm key={security.secondFactor} security={security} isSelf={isSelf} onSaved={setSaved} />
        )}
        <p role="status" class="done">
          {saved && 'Saved. It holds from the next request on, and the admins are told by mail.'}
        </p>
      </Section>
    </>
  )
}

/** Whether a setting asks this user. */
function holds(policy: Policy, { user }: Session): boolean {
  return policy === 'everyone' || (policy === 'admins' && user.role === 'admin')
}

interface FormProps {
  security: Security
  isSelf: (policy: Policy) => boolean
  onSaved: (security: Security) => void
}

function PolicyForm({ security, isSelf, onSaved }: FormProps) {
  const { secondFactor: current, concerned } = security
  const dialog = useRef<HTMLDialogElement>(null)
  const choices = useRef<HTMLFieldSetElement>(null)
  /** What waits for a confirmation, since it asks more of people than before. */
  const [stricter, setStricter] = useState<Policy | null>(null)

  async function change(secondFactor: Policy): Promise<void> {
    onSaved(await call<Security>('/auth/company/security', { method: 'PATCH', body: { secondFactor } }))
  }
  async function choose({ policy }: Record<string, string>): Promise<void> {
    const chosen = CHOICES.find((choice) => choice.policy === policy)?.policy ?? current
    if (strictnessOf(chosen) <= strictnessOf(current)) return await change(chosen)
    setStricter(chosen)
    dialog.current?.showModal()
  }

  /** What was not confirmed does not stay chosen. */
  function leave(): void {
    setStricter(null)
    choices.current?.form?.reset()
  }

  return (
    <>
      <Form action="Save" onSubmit={choose}>
        {() => (
          <fieldset class="options" ref={choices}>
            <legend>Who needs a second factor?</legend>
            {CHOICES.map(({ policy, title, means }) => (
              <label key={policy}>
                <input type="radio" name="policy" value={policy} defaultChecked={policy === current} />
                <span>
                  {title}
                  <span class="quiet">{means}</span>
                  {policy !== 'optional' && (
                    <span class="quiet">{inWords(concerned[policy], isSelf(policy))}</span>
                  )}
                </span>
              </label>
            ))}
          </fieldset>
        )}
      </Form>
      <dialog ref={dialog} aria-labelledby="stricter-title" onClose={leave}>
        {stricter && (
          <>
            <h2 id="stricter-title">{CHOICES[strictnessOf(stricter)]?.title}?</h2>
            <p>{inWords(concerned[stricter], isSelf(stricter))}</p>
            <p>It holds from the next click on, also for programs that use the tokens of a person.</p>
            <Form
              action="Ask for it"
              onCancel={() => dialog.current?.close()}
              onSubmit={async () => {
                await change(stricter)
                dialog.current?.close()
              }}
            >
              {() => null}
            </Form>
          </>
        )}
      </dialog>
    </>
  )
}

function inWords(count: number, isSelf: boolean): string {
  if (count === 0) return 'All of them have one.'
  if (isSelf && count === 1) return 'You have none yet, and must add one before you go on.'
  const people = count === 1 ? '1 person has' : `${count} people have`
  return `${people} none yet, and must add one before they go on.${isSelf ? ' You are one of them.' : ''}`
}
