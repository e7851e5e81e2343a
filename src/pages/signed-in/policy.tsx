import { useQueryClient } from '@tanstack/preact-query'
import { useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Form, type Values } from '../form.tsx'
import { Dialog, Section } from '../parts.tsx'
import { reading, useRead, Waiting } from '../queries.tsx'
import type { Security, Session } from '../routes.ts'

type Policy = Security['secondFactor']

/** From least to most strict. */
const CHOICES: { policy: Policy; title: string; means: string; ask: string; loosen: string }[] = [
  {
    policy: 'optional',
    title: 'Optional',
    means: 'Members can add a second factor under Account.',
    ask: '',
    loosen: 'Make two-factor authentication optional?',
  },
  {
    policy: 'admins',
    title: 'Required for admins',
    means: 'Everyone with the admin role, who can change members, secrets, and these settings.',
    ask: 'Require two-factor authentication for admins?',
    loosen: 'Require two-factor authentication only for admins?',
  },
  {
    policy: 'everyone',
    title: 'Required for everyone',
    means: 'Every person in the company. Service accounts are exempt.',
    ask: 'Require two-factor authentication for everyone?',
    loosen: '',
  },
]
const strictnessOf = (policy: Policy) => CHOICES.findIndex((choice) => choice.policy === policy)

/** Whether the policy requires a second factor for this role. */
export function asks(policy: Policy, role: string): boolean {
  return policy === 'everyone' || (policy === 'admins' && role === 'admin')
}

/** The company's second-factor policy. */
export function PolicySection({ session }: { session: Session }) {
  const client = useQueryClient()
  const loaded = useRead('GET /auth/company/security')
  const own = useRead('GET /auth/second-factors')
  const [isSaved, setSaved] = useState(false)
  const { data: security } = loaded
  const isWithout = own.data?.secondFactors.length === 0
  const isSelf = (policy: Policy) => isWithout && asks(policy, session.user.role)
  async function show(saved: Security): Promise<void> {
    const { queryKey } = reading('GET /auth/company/security')
    // Its response can lack the change.
    await client.cancelQueries({ queryKey })
    client.setQueryData(queryKey, saved)
    setSaved(true)
  }
  return (
    <Section id="policy" title="Two-factor authentication">
      <p class="lead">
        Without it, a stolen password is enough to sign in. See who has none:{' '}
        <a href="/members?role=admin&status=active&secondFactor=no">admins</a>,{' '}
        <a href="/members?status=active&secondFactor=no">everyone</a>.
      </p>
      <Waiting of={loaded} />
      {security && (
        <>
          <Without count={security.concerned.everyone} />
          <PolicyForm key={security.secondFactor} security={security} isSelf={isSelf} onSaved={show} />
        </>
      )}
      <p role="status" class="done">
        {isSaved && "Saved. It takes effect immediately, and we've emailed your admins."}
      </p>
    </Section>
  )
}

const MAX_NAMES = 8
const list = new Intl.ListFormat('en')

function useFirstWithout(role?: 'admin') {
  const query = { limit: MAX_NAMES, status: 'active', secondFactor: 'no', role } as const
  return useRead('GET /auth/members', { query }).data?.members
}

/** Admins come first. */
function Without({ count }: { count: number }) {
  const admins = useFirstWithout('admin')
  const others = useFirstWithout()?.filter(({ role }) => role !== 'admin')
  const first = admins && others && [...admins, ...others].slice(0, MAX_NAMES)
  if (count === 0 || !first?.length) return null
  const names = first.map(({ name, role }) => (role === 'admin' ? `${name} (admin)` : name))
  if (count > first.length) names.push(`${(count - first.length).toLocaleString()} more`)
  return (
    <p>
      <strong>Without a second factor:</strong> {list.format(names)}.
    </p>
  )
}

interface FormProps {
  security: Security
  isSelf: (policy: Policy) => boolean
  onSaved: (security: Security) => Promise<void>
}

function PolicyForm({ security, isSelf, onSaved }: FormProps) {
  const { secondFactor: current, concerned } = security
  const choices = useRef<HTMLFieldSetElement>(null)
  /** A policy that waits for confirmation. */
  const [chosen, setChosen] = useState<Policy | null>(null)

  async function change(secondFactor: Policy): Promise<void> {
    await onSaved(await call('PATCH /auth/company/security', { body: { secondFactor } }))
  }
  async function choose({ policy }: Values): Promise<void> {
    const found = CHOICES.find((choice) => choice.policy === policy)?.policy ?? current
    if (found === current) await change(found)
    else setChosen(found)
  }

  /** A policy that was not confirmed does not stay selected. */
  function leave(): void {
    setChosen(null)
    choices.current?.form?.reset()
  }

  return (
    <>
      <Form action="Save policy" onSubmit={choose}>
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
      {chosen && strictnessOf(chosen) > strictnessOf(current) && (
        <Dialog title={CHOICES[strictnessOf(chosen)]?.ask ?? ''} onClose={leave}>
          <p>{inWords(concerned[chosen], isSelf(chosen))}</p>
          <p>This takes effect immediately, including for programs that use a person's tokens.</p>
          <Form action="Require a second factor" onCancel={leave} onSubmit={() => change(chosen)} />
        </Dialog>
      )}
      {chosen && strictnessOf(chosen) < strictnessOf(current) && (
        <Dialog title={CHOICES[strictnessOf(chosen)]?.loosen ?? ''} onClose={leave}>
          <p>
            A stolen password is then enough to sign in as a member without a second factor
            {chosen === 'admins' && ' who is not an admin'}. Members who have one still need it.
          </p>
          <Form action="Loosen policy" isDanger onCancel={leave} onSubmit={() => change(chosen)} />
        </Dialog>
      )}
    </>
  )
}

function inWords(count: number, isSelf: boolean): string {
  if (count === 0) return 'All of them have a second factor.'
  if (isSelf && count === 1) return "You don't have one yet, and must add one before you continue."
  const people = count === 1 ? "1 person doesn't" : `${count} people don't`
  return `${people} have one yet, and must add one before they continue.${isSelf ? ' You are one of them.' : ''}`
}
