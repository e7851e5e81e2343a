import { useEffect, useId, useMemo, useState } from 'preact/hooks'
import { Outcome, useChange } from '../outcome.tsx'
import { ClearFilters, LOCALE, Time } from '../parts.tsx'
import { usePages, useRead, useReload, Waiting } from '../queries.tsx'
import type { Member, Security } from '../routes.ts'
import { ListHead } from './list-head.tsx'
import { type DetailsProps, MemberDetails } from './member-details.tsx'
import { MemberFilter, useFilter } from './member-filter.tsx'
import { asks } from './policy.tsx'
import { KINDS } from './second-factors.tsx'

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
export function MemberList(given: Pick<DetailsProps, 'session' | 'issuing'>) {
  const filter = useFilter()
  const { pages, first, change, moreButton } = usePages('GET /auth/members', { limit: 50, ...filter })
  const members = pages.flatMap((page) => page.members)
  const total = pages[0]?.total ?? 0
  const policy = useRead('GET /auth/company/security').data?.secondFactor ?? 'optional'
  const deletion = useChange()
  const reload = useReload()

  const [drawn, setDrawn] = useState(STEP)
  const isWhole = drawn >= members.length
  useEffect(() => {
    if (isWhole) return
    const timer = setTimeout(() => setDrawn(drawn + STEP))
    return () => clearTimeout(timer)
  }, [drawn, isWhole])

  /** A changed member stays in the list, even if the filter no longer matches. */
  function edit(changed: Member): void {
    const replace = (member: Member) => (member.id === changed.id ? changed : member)
    change((all) => all.map((page) => ({ ...page, members: page.members.map(replace) })))
    // Those that the member sent may have ended.
    reload('GET /auth/invitations')
  }
  const shown = members.length
  const isFiltered = Object.values(filter).some(Boolean)
  const found = `${total ? total.toLocaleString(LOCALE) : 'No'} ${total === 1 ? 'member' : 'members'}${isFiltered ? ` match${total === 1 ? 'es' : ''}` : ''}`
  return (
    <>
      <MemberFilter />
      <p class={isFiltered || shown < total ? 'list-count' : 'hidden'}>
        <span role="status">{first.data && `${found}${shown < total ? `, ${shown} shown` : ''}`}</span>
        {isFiltered && <ClearFilters path="/members" />}
      </p>
      {policy !== 'optional' && (
        <p class="quiet">
          Your company requires a second factor for {policy === 'admins' ? 'admins' : 'everyone'}, as set
          under <a href="/company">Company</a>. Members who don't have one must add it before they continue.
        </p>
      )}
      <Waiting of={first} />
      <Outcome of={deletion} isOfForm />
      {shown > 0 && (
        // More than the height of all rows, so that Back finds its place.
        <div style={{ minHeight: isWhole ? '' : `${shown * 8}rem` }}>
          <table class="list" aria-labelledby="list">
            <ListHead columns={COLUMNS} buttons="Details" />
            <tbody>
              {members.slice(0, drawn).map((member) => (
                <Row
                  key={member.id}
                  {...given}
                  member={member}
                  policy={policy}
                  deletion={deletion}
                  onChanged={edit}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {moreButton('Show more')}
    </>
  )
}

/** Memoized: appending a page must not render hundreds of rows again. */
function Row({ policy, ...given }: DetailsProps & { policy: Security['secondFactor'] }) {
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
