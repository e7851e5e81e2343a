import { useQueryClient } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Form } from '../form.tsx'
import { LIST, LOCALE } from '../parts.tsx'
import { reading, useRead, Waiting } from '../queries.tsx'
import type { Body, Security, Session } from '../routes.ts'
import type { Asked } from './dialog-button.tsx'
import { Setting } from './setting.tsx'

type Policy = Security['secondFactor']

const TITLES: Record<Policy, string> = {
  optional: 'Optional',
  admins: 'Required for admins',
  everyone: 'Required for everyone',
}
const MEANS: Record<Policy, string> = {
  optional: 'Members can add a second factor under Account.',
  admins: 'Everyone with the admin role, who can change members, secrets, and these settings.',
  everyone: 'Every person in the company. Service accounts are exempt.',
}
/** From least to most strict. */
const POLICIES = Object.keys(TITLES) as Policy[]

export function asks(policy: Policy, role: string): boolean {
  return policy === 'everyone' || (policy === 'admins' && role === 'admin')
}

const MAX_NAMES = 8

function useFirstWithout(role?: 'admin') {
  const query = { limit: MAX_NAMES, status: 'active', secondFactor: 'no', role } as const
  return useRead('GET /auth/members', { query }).data
}

/** Members without a second factor, admins first. */
export function Without() {
  const admins = useFirstWithout('admin')
  const all = useFirstWithout()
  const { data: security } = useRead('GET /auth/company/security')
  if (!admins || !all?.total) return null
  const others = all.members.filter(({ role }) => role !== 'admin').map(({ name }) => name)
  const names = [...admins.members.map(({ name }) => `${name} (admin)`), ...others].slice(0, MAX_NAMES)
  if (all.total > names.length) names.push(`${(all.total - names.length).toLocaleString(LOCALE)} more`)
  return (
    <p>
      <strong>Without a second factor:</strong> {LIST.format(names)}.{' '}
      {security?.secondFactor === 'everyone'
        ? 'They must add one before they continue.'
        : 'A stolen password is enough to sign in as them.'}{' '}
      See <a href="/members?role=admin&status=active&secondFactor=no">admins</a> or{' '}
      <a href="/members?status=active&secondFactor=no">everyone</a>.
    </p>
  )
}

export function PolicySetting({ session }: { session: Session }) {
  const loaded = useRead('GET /auth/company/security')
  const { data: security } = loaded
  return (
    <Setting
      label="Two-factor policy"
      value={
        <>
          <Waiting of={loaded} />
          {security && TITLES[security.secondFactor]}
          <p class="quiet">{security && MEANS[security.secondFactor]}</p>
        </>
      }
      dialog={security && ((form) => <PolicyForm {...form} security={security} session={session} />)}
    />
  )
}

/** Saves settings that can refuse this session, so nothing is loaded again: its user would not see that they are saved. */
export function useSaveSecurity() {
  const client = useQueryClient()
  return async (body: Body<'PATCH /auth/company/security'>): Promise<void> => {
    const saved = await call('PATCH /auth/company/security', { body })
    const { queryKey } = reading('GET /auth/company/security')
    await client.cancelQueries({ queryKey })
    client.setQueryData(queryKey, saved)
  }
}

/** Says what a stricter or less strict policy does before it is saved. */
function PolicyForm({ security, session, ...form }: Asked & { security: Security; session: Session }) {
  const { secondFactor: current, concerned } = security
  const saveSecurity = useSaveSecurity()
  const own = useRead('GET /auth/second-factors')
  const [chosen, setChosen] = useState(current)
  const isWithout = own.data?.secondFactors.length === 0
  const isSelf = (policy: Policy) => isWithout && asks(policy, session.user.role)
  const stricter = POLICIES.indexOf(chosen) - POLICIES.indexOf(current)

  async function save(): Promise<string> {
    if (chosen === current) return 'No changes to save.'
    await saveSecurity({ secondFactor: chosen })
    return "Saved. It takes effect immediately, and we've emailed your admins."
  }

  return (
    <Form
      {...form}
      action={stricter > 0 ? 'Require a second factor' : stricter < 0 ? 'Loosen policy' : 'Save policy'}
      isDanger={stricter < 0}
      onSubmit={save}
    >
      <fieldset class="options">
        <legend>Who needs a second factor?</legend>
        {POLICIES.map((policy) => (
          <label key={policy}>
            <input
              type="radio"
              name="policy"
              value={policy}
              checked={policy === chosen}
              autofocus={policy === current}
              onChange={() => setChosen(policy)}
            />
            <span>
              {TITLES[policy]}
              <span class="quiet">{MEANS[policy]}</span>
              {policy !== 'optional' && (
                <span class="quiet">{inWords(concerned[policy], isSelf(policy))}</span>
              )}
            </span>
          </label>
        ))}
      </fieldset>
      <p role="status" class="notice">
        {stricter > 0 && "This takes effect immediately, including for programs that use a person's tokens."}
        {stricter < 0 &&
          `A stolen password is then enough to sign in as a member without a second factor${
            chosen === 'admins' ? ' who is not an admin' : ''
          }. Members who have one still need it.`}
      </p>
    </Form>
  )
}

function inWords(count: number, isSelf: boolean): string {
  if (count === 0) return 'All of them have a second factor.'
  if (isSelf && count === 1) return "You don't have one yet, and must add one before you continue."
  const people = count === 1 ? "1 person doesn't" : `${count} people don't`
  return `${people} have one yet, and must add one before they continue.${isSelf ? ' You are one of them.' : ''}`
}
