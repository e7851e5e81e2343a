import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { useReload } from '../queries.tsx'
import type { Member } from '../routes.ts'
import { Confirm } from './confirm.tsx'
import { useSent } from './invitations.tsx'
import type { NewPassword } from './new-passwords.tsx'

export interface DetailsProps {
  member: Member
  isSelf: boolean
  onPassword: (password: NewPassword) => void
  onChanged: (member: Member) => void
  onDeleted: (member: Member) => void
}

/** Open invitations end when their sender loses the right to invite. */
export function sentInWords(sent: number): string {
  if (sent === 0) return ''
  return sent === 1
    ? 'The open invitation they sent stops working.'
    : `The ${sent} open invitations they sent stop working.`
}

/** An action that needs confirmation. */
interface Act {
  label: string
  /** Ends with the member's name. */
  full: string
  effect: ComponentChildren
  /** It cannot be undone. */
  isGrave?: boolean
  /** Returns what to do after the dialog closes. */
  perform: () => Promise<() => void>
}

/** An admin's actions on a member. */
export function MemberActs({ member, onChanged, onDeleted }: DetailsProps) {
  const { id, kind, name, email, status, secondFactors } = member
  const sent = useSent(id)
  const reload = useReload()
  const isService = kind === 'service'
  const enabling = useChange()
  const [done, setDone] = useState('')
  const [asked, setAsked] = useState<Act | null>(null)
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
      const disabled = await setStatus('disabled')
      reload('GET /auth/invitations')
      return () => {
        onChanged(disabled)
        setDone('Disabled. All sessions have ended.')
      }
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
      return () => setDone('All sessions have ended.')
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
      return () => {
        onChanged({ ...member, secondFactors: [] })
        setDone('Reset. A link to choose a new password is on its way.')
      }
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
      return () => onDeleted(member)
    },
  }

  const button = ({ label, full, isGrave }: Pick<Act, 'label' | 'full' | 'isGrave'>, onClick: () => void) => (
    <button
      type="button"
      class={isGrave ? 'small grave' : 'small'}
      aria-label={full}
      aria-disabled={enabling.isBusy}
      onClick={onClick}
    >
      {label}
    </button>
  )
  const asking = (act: Act) => button(act, () => setAsked(act))
  const enable = () =>
    enabling.run(async () => {
      onChanged(await setStatus('active'))
      setDone('Enabled. They can sign in again.')
    })
  return (
    <div class="member-acts">
      <Outcome of={enabling} />
      <div class="choices">
        {status === 'active'
          ? asking(disable)
          : button({ label: 'Enable', full: `Enable ${name}` }, () => void enable())}
        {asking(endSessions)}
        {secondFactors.length > 0 && asking(resetFactors)}
        {asking(remove)}
      </div>
      <p role="status" class="done">
        {done}
      </p>
      {asked && (
        <Confirm
          title={`${asked.full}?`}
          action={asked.label}
          onConfirm={async () => {
            setDone('')
            const follow = await asked.perform()
            setAsked(null)
            follow()
          }}
          onCancel={() => setAsked(null)}
        >
          {asked.effect}
        </Confirm>
      )}
    </div>
  )
}
