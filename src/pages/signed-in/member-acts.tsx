import { useState } from 'preact/hooks'
import { call, type Member } from '../api.ts'
import { useChange } from '../loading.tsx'
import { CopyButton } from '../parts.tsx'
import { Confirm } from './confirm.tsx'

interface Props {
  member: Member
  onChanged: (member: Member) => void
  onDeleted: () => void
}

/** What an admin does to a member, each by a button. */
export function MemberActs({ member, onChanged, onDeleted }: Props) {
  const { id, kind, name, email, status, secondFactors } = member
  const { run, isBusy, shown } = useChange()
  const [done, setDone] = useState<string | null>(null)
  const [password, setPassword] = useState<string | null>(null)
  /** What waits for a confirmation. */
  const [asked, setAsked] = useState<'delete' | 'reset' | null>(null)
  const path = `/auth/members/${id}`

  const changeStatus = (next: 'active' | 'disabled', words: string) =>
    run(async () => {
      onChanged(await call<Member>(path, { method: 'PATCH', body: { status: next } }))
      setDone(words)
    })
  const replacePassword = () =>
    run(async () => {
      const replaced = await call<{ password: string }>(`${path}/password`)
      setPassword(replaced.password)
      setDone(null)
    })
  const endSessions = () =>
    run(async () => {
      await call(`${path}/sessions`, { method: 'DELETE' })
      setDone('All sessions have ended.')
    })
  const resetFactors = () =>
    run(async () => {
      await call(`${path}/second-factors`, { method: 'DELETE' })
      onChanged({ ...member, secondFactors: [] })
      setAsked(null)
      setDone('Reset. A link to choose another password is on its way.')
    })
  const remove = () =>
    run(async () => {
      await call(path, { method: 'DELETE' })
      onDeleted()
    })

  const act = (label: string, onClick: () => void) => (
    <button type="button" class="small" disabled={isBusy} onClick={onClick}>
      {label}
    </button>
  )
  return (
    <>
      {shown}
      {password && (
        <p class="fresh secret" role="status">
          The new password, shown this once: <code>{password}</code>{' '}
          <CopyButton text={password} what="the password" />
        </p>
      )}
      <div class="choices">
        {kind === 'service' && act('Replace the password', replacePassword)}
        {status === 'active'
          ? act('Disable', () => changeStatus('disabled', 'Disabled, and all sessions have ended.'))
          : act('Enable', () => changeStatus('active', 'Enabled: can sign in again.'))}
        {act('End all sessions', endSessions)}
        {secondFactors.length > 0 && act('Reset second factors…', () => setAsked('reset'))}
        {act('Delete…', () => setAsked('delete'))}
      </div>
      <p role="status" class="done">
        {done}
      </p>
      {asked === 'reset' && (
        <Confirm
          action={`Reset ${name}`}
          isBusy={isBusy}
          onConfirm={resetFactors}
          onCancel={() => setAsked(null)}
        >
          For somebody who has lost them. The second factors, the recovery codes and the password stop
          working, all sessions end, and a link to choose another password is mailed to {email}. First make
          sure that it is {name} who asks for it.
        </Confirm>
      )}
      {asked === 'delete' && (
        <Confirm action={`Delete ${name}`} isBusy={isBusy} onConfirm={remove} onCancel={() => setAsked(null)}>
          Name, e-mail, password and second factors are gone for good, all sessions end, and open invitations
          of this member die. In the activity, a bare id stays.
        </Confirm>
      )}
    </>
  )
}
