import { useEffect, useId, useMemo, useState } from 'preact/hooks'
import { Time } from '../parts.tsx'
import type { Member, Security } from '../routes.ts'
import { ListHead } from './list-head.tsx'
import type { DetailsProps } from './member-acts.tsx'
import { MemberDetails } from './member-details.tsx'
import { asks } from './policy.tsx'
import { KINDS } from './second-factors.tsx'

interface RowProps extends DetailsProps {
  policy: Security['secondFactor']
}

type Props = Omit<RowProps, 'member'> & { members: Member[] }

const COLUMNS = {
  Name: '36%',
  Role: '6rem',
  'Second factor': undefined,
  'Last sign-in': '10.5rem',
  Details: '5.5rem',
}

/** Rows that are drawn in one task, which takes the browser less than 50 ms. */
const STEP = 200

/** A row for each member, with details below rows that are open. */
export function MemberTable({ members, ...given }: Props) {
  const [drawn, setDrawn] = useState(STEP)
  const isWhole = drawn >= members.length
  useEffect(() => {
    if (isWhole) return
    const timer = setTimeout(() => setDrawn(drawn + STEP))
    return () => clearTimeout(timer)
  }, [drawn, isWhole])
  return (
    // More than the height of all rows, so that Back finds its place.
    <div style={{ minHeight: isWhole ? '' : `${members.length * 8}rem` }}>
      <table class="list" aria-labelledby="list">
        <ListHead columns={COLUMNS} buttons="Details" />
        <tbody>
          {members.slice(0, drawn).map((member) => (
            <Row key={member.id} {...given} member={member} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Memoized: appending a page must not render hundreds of rows again. */
function Row({ policy, ...given }: RowProps) {
  const [isOpen, setOpen] = useState(false)
  const detailsId = useId()
  const { member, session } = given
  const isSelf = member.id === session.user.id
  const row = useMemo(() => {
    const { kind, name, email, role, status, emailVerified, secondFactors, lastSignInAt } = member
    const tags = [
      isSelf && 'you',
      kind === 'service' && 'service account',
      status === 'disabled' && 'disabled',
      !emailVerified && 'email not confirmed',
    ].filter((tag) => tag !== false)
    const factors = secondFactors.map((factor) => KINDS[factor]).join(', ')
    return (
      <tr class="list-row list-member">
        <th scope="row">
          <span class="list-tagged">
            <span class="list-line list-name" title={name} translate={false}>
              {name}
            </span>
            {tags.map((tag) => (
              <span key={tag} class="tag">
                {tag}
              </span>
            ))}
          </span>
          {name !== email && (
            <span class="quiet list-line" title={email} translate={false}>
              {email}
            </span>
          )}
        </th>
        <td data-label="Role">{role}</td>
        <td data-label="Second factor">
          {kind === 'service'
            ? '–'
            : factors || (asks(policy, role) ? <span class="error">none, required</span> : 'none')}
        </td>
        <td data-label="Last sign-in">{lastSignInAt ? <Time at={lastSignInAt} isToTheHour /> : 'never'}</td>
        <td class="list-acts">
          <button
            type="button"
            class="small"
            aria-expanded={isOpen}
            aria-controls={isOpen ? detailsId : undefined}
            onClick={() => setOpen(!isOpen)}
          >
            {isOpen ? 'Close' : 'Manage'}
            <span class="hidden"> {name}</span>
          </button>
        </td>
      </tr>
    )
  }, [member, isSelf, policy, isOpen])
  return (
    <>
      {row}
      {isOpen && (
        <tr class="list-details" id={detailsId}>
          <td colSpan={5}>
            <MemberDetails {...given} />
          </td>
        </tr>
      )}
    </>
  )
}
