import type { ComponentChildren } from 'preact'
import { call } from '../api.ts'
import { Form } from '../form.tsx'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { useReload } from '../queries.tsx'
import type { Member, Session } from '../routes.ts'
import { DialogButton } from './dialog-button.tsx'
import { useSent } from './invitations.tsx'
import type { Issuing } from './new-passwords.tsx'

export interface DetailsProps {
  session: Session
  member: Member
  issuing: Issuing
  /** Outlives the row. */
  deletion: Change
  /** Without `changed`, the member was deleted. */
  onChanged: (id: string, changed?: Member) => void
}

/** Open invitations end when their sender loses the right to invite. */
export function sentInWords(sent: number): string {
  if (sent === 0) return ''
  return sent === 1
    ? 'The open invitation they sent stops working.'
    : `The ${sent} open invitations they sent stop working.`
}

interface Act {
  label: string
  /** Ends with the member's name. */
  full: string
  /** Asked before it. */
  effect: ComponentChildren
  /** It cannot be undone. */
  isGrave?: boolean
  /** Returns what was done. */
  perform: () => Promise<string>
}

/** An admin's actions on a member. */
export function MemberActs({ member, deletion, onChanged }: DetailsProps) {
  const { id, kind, name, email, status, secondFactors } = member
  const sent = useSent(id)
  const reload = useReload()
  const isService = kind === 'service'
  const change = useChange()
  const whom = (
    <>
      <strong>{name}</strong>
      {name !== email && ` (${email})`}
    </>
  )
  const setStatus = (next: 'active' | 'disabled') =>
    call('PATCH /auth/members/:id', { id, body: { status: next } })

  const disable: Act = {
    label: 'Disable',
    full: `Disable ${name}`,
    effect: (
      <p>
        {isService ? 'Every program that signs in as ' : ''}
        {whom} is signed out everywhere immediately, and can't sign in until you enable{' '}
        {isService ? 'the account' : 'them'} again. {sentInWords(sent)}
      </p>
    ),
    async perform() {
      onChanged(id, await setStatus('disabled'))
      reload('GET /auth/invitations')
      return 'Disabled. All sessions have ended.'
    },
  }
  const endSessions: Act = {
    label: 'End all sessions',
    full: `End all sessions of ${name}`,
    effect: (
      <p>
        {isService ? 'Every program that signs in as ' : ''}
        {whom} is signed out everywhere immediately, and must sign in again.
      </p>
    ),
    async perform() {
      await call('DELETE /auth/members/:id/sessions', { id })
      return 'All sessions have ended.'
    },
  }
  const resetFactors: Act = {
    label: 'Reset second factors',
    full: `Reset second factors of ${name}`,
    effect: (
      <>
        <p>
          Use this if {whom} lost their second factors. Their second factors, recovery codes, and password
          stop working, and all their sessions end. We email them a link to choose a new password.
        </p>
        <p>First, make sure that the request really comes from them.</p>
      </>
    ),
    async perform() {
      await call('DELETE /auth/members/:id/second-factors', { id })
      onChanged(id, { ...member, secondFactors: [] })
      return 'Reset. A link to choose a new password is on its way.'
    },
  }
  const remove: Act = {
    label: 'Delete',
    isGrave: true,
    full: `Delete ${name}`,
    effect: (
      <>
        <p>
          {isService ? 'The account ' : 'The account, password, and second factors of '}
          {whom} {isService ? 'is' : 'are'} deleted, and all sessions end. {sentInWords(sent)} The audit log
          keeps only {isService ? 'its' : 'their'} ID.
        </p>
        <p>This can't be undone.</p>
      </>
    ),
    async perform() {
      await call('DELETE /auth/members/:id', { id })
      reload('GET /auth/invitations')
      onChanged(id)
      return `${name} was deleted.`
    },
  }

  async function enable(): Promise<string> {
    onChanged(id, await setStatus('active'))
    return 'Enabled. They can sign in again.'
  }
  const acts = [
    ...(status === 'active' ? [disable] : []),
    endSessions,
    ...(secondFactors.length > 0 ? [resetFactors] : []),
    remove,
  ]
  return (
    <div class="member-acts">
      <div class="choices">
        {status !== 'active' && (
          <button
            type="button"
            class="small"
            aria-label={`Enable ${name}`}
            aria-disabled={change.isBusy}
            onClick={() => change.run(enable)}
          >
            Enable
          </button>
        )}
        {acts.map(({ label, full, effect, isGrave, perform }) => (
          <DialogButton
            key={label}
            class={isGrave ? 'small grave' : 'small'}
            label={full}
            title={`${full}?`}
            change={isGrave ? deletion : change}
            dialog={(form) => (
              <Form {...form} action={label} isDanger onSubmit={perform}>
                {effect}
              </Form>
            )}
          >
            {label}
          </DialogButton>
        ))}
      </div>
      <Outcome of={change} isOfForm />
    </div>
  )
}
