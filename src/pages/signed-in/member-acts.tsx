import { call } from '../api.ts'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import type { Member, Session } from '../routes.ts'
import { ConfirmButton } from './dialog-button.tsx'
import { useEnding } from './invitations.tsx'
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

export function MemberActs({ member, deletion, onChanged }: DetailsProps) {
  const { id, kind, name, email, status, secondFactors } = member
  const ending = useEnding(id)
  const isService = kind === 'service'
  const change = useChange()
  const whom = (
    <>
      <strong>{name}</strong>
      {name !== email && ` (${email})`}
    </>
  )
  async function setStatus(next: 'active' | 'disabled', done: string): Promise<string> {
    onChanged(id, await call('PATCH /auth/members/:id', { id, body: { status: next } }))
    return done
  }
  const enable = () => setStatus('active', 'Enabled. They can sign in again.')
  const disable = () => setStatus('disabled', 'Disabled. All sessions have ended.')
  async function endSessions(): Promise<string> {
    await call('DELETE /auth/members/:id/sessions', { id })
    return 'All sessions have ended.'
  }
  async function resetFactors(): Promise<string> {
    await call('DELETE /auth/members/:id/second-factors', { id })
    onChanged(id, { ...member, secondFactors: [] })
    return 'Reset. A link to choose a new password is on its way.'
  }
  async function remove(): Promise<string> {
    await call('DELETE /auth/members/:id', { id })
    onChanged(id)
    return `${name} was deleted.`
  }

  return (
    <div class="member-acts">
      <div class="choices">
        {status === 'active' ? (
          <ConfirmButton label="Disable" of={name} change={change} onConfirm={disable}>
            <p>
              {isService ? 'Every program that signs in as ' : ''}
              {whom} is signed out everywhere immediately, and can't sign in until you enable{' '}
              {isService ? 'the account' : 'them'} again. {ending}
            </p>
          </ConfirmButton>
        ) : (
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
        <ConfirmButton label="End all sessions" of={`of ${name}`} change={change} onConfirm={endSessions}>
          <p>
            {isService ? 'Every program that signs in as ' : ''}
            {whom} is signed out everywhere immediately, and must sign in again.
          </p>
        </ConfirmButton>
        {secondFactors.length > 0 && (
          <ConfirmButton
            label="Reset second factors"
            of={`of ${name}`}
            change={change}
            onConfirm={resetFactors}
          >
            <p>
              Use this if {whom} lost their second factors. Their second factors, recovery codes, and password
              stop working, and all their sessions end. We email them a link to choose a new password.
            </p>
            <p>First, make sure that the request really comes from them.</p>
          </ConfirmButton>
        )}
        <ConfirmButton label="Delete" of={name} isGrave change={deletion} onConfirm={remove}>
          <p>
            {isService ? 'The account ' : 'The account, password, and second factors of '}
            {whom} {isService ? 'is' : 'are'} deleted, and all sessions end. {ending} The audit log keeps only{' '}
            {isService ? 'its' : 'their'} ID.
          </p>
          <p>This can't be undone.</p>
        </ConfirmButton>
      </div>
      <Outcome of={change} isOfForm />
    </div>
  )
}
