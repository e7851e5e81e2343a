import { useCallback, useId, useMemo, useState } from 'preact/hooks'
import { Time } from '../parts.tsx'
import type { Member } from '../routes.ts'
import { KINDS } from './factor-list.tsx'
import { MemberDetails } from './member-details.tsx'
import type { NewPassword } from './new-passwords.tsx'

interface Props {
  members: Member[]
  selfId: string
  /** Whether the company's policy requires a second factor of the member. */
  isAsked: (member: Member) => boolean
  onPassword: (password: NewPassword) => void
  onChanged: (member: Member) => void
  onDeleted: (member: Member) => void
}

/** A row for each member, with details below rows that are open. */
export function MemberTable({ members, selfId, isAsked, ...acts }: Props) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const id = useId()
  /** Stable, so that rows stay memoized. */
  const toggle = useCallback(
    (memberId: string) =>
      setOpened((before) => {
        const after = new Set(before)
        if (!after.delete(memberId)) after.add(memberId)
        return after
      }),
    [],
  )
  return (
    <table class="list" aria-labelledby="members">
      <thead class="list-head">
        <tr>
          <th scope="col" class="list-first">
            Name
          </th>
          <th scope="col" class="list-role">
            Role
          </th>
          <th scope="col">Second factor</th>
          <th scope="col" class="list-time">
            Last sign-in
          </th>
          <th scope="col" class="list-act">
            <span class="hidden">Details</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {members.flatMap((member) => {
          const isOpen = opened.has(member.id)
          const isSelf = member.id === selfId
          const detailsId = `${id}-${member.id}`
          const props = { member, isOpen, isSelf, isAsked: isAsked(member), detailsId, onToggle: toggle }
          return [
            <Row key={member.id} {...props} />,
            isOpen && (
              <tr key={detailsId} class="list-details" id={detailsId}>
                <td colSpan={5}>
                  <MemberDetails member={member} isSelf={isSelf} {...acts} />
                </td>
              </tr>
            ),
          ]
        })}
      </tbody>
    </table>
  )
}

interface RowProps {
  member: Member
  isSelf: boolean
  isAsked: boolean
  isOpen: boolean
  detailsId: string
  onToggle: (id: string) => void
}

/** Memoized: appending a page must not render hundreds of rows again. */
function Row({ member, isSelf, isAsked, isOpen, detailsId, onToggle }: RowProps) {
  return useMemo(() => {
    const { id, kind, name, email, role, status, emailVerified, secondFactors, lastSignInAt } = member
    const factors = secondFactors.map((factor) => KINDS[factor]).join(', ')
    return (
      <tr class="list-row">
        <th scope="row" class="list-first">
          <span class="list-name">{name}</span>
          {name !== email && <span class="quiet list-email">{email}</span>}
          <span class="tags">
            {isSelf && <span class="tag">you</span>}
            {kind === 'service' && <span class="tag">service account</span>}
            {status === 'disabled' && <span class="tag">disabled</span>}
            {!emailVerified && <span class="tag">email not confirmed</span>}
          </span>
        </th>
        <td data-label="Role">{role}</td>
        <td data-label="Second factor">
          {kind === 'service'
            ? '–'
            : factors || (isAsked ? <span class="error">none, required</span> : 'none')}
        </td>
        <td data-label="Last sign-in">{lastSignInAt ? <Time at={lastSignInAt} isToTheHour /> : 'never'}</td>
        <td class="list-act">
          <button
            type="button"
            class="small"
            aria-expanded={isOpen}
            aria-controls={isOpen ? detailsId : undefined}
            onClick={() => onToggle(id)}
          >
            {isOpen ? 'Close' : 'Manage'}
            <span class="hidden"> {name}</span>
          </button>
        </td>
      </tr>
    )
  }, [member, isSelf, isAsked, isOpen, detailsId, onToggle])
}
