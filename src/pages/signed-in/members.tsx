import { useEffect } from 'preact/hooks'
import { Outcome, useChange } from '../outcome.tsx'
import { LOCALE, Title } from '../parts.tsx'
import { usePages, useRead, useReload, Waiting } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Member, Session } from '../routes.ts'
import { Invitations, useInvitations } from './invitations.tsx'
import { Invite } from './invite.tsx'
import { MemberFilter, useFilter } from './member-filter.tsx'
import { MemberTable } from './member-table.tsx'
import { AddServiceAccount, type Issuing, NewPasswords, useNewPasswords } from './new-passwords.tsx'

export function MembersPage({ session }: { session: Session }) {
  const [{ tab }] = useQuery()
  const issuing = useNewPasswords()
  const inviting = useChange()
  const { data, refetch } = useRead('GET /auth/members', { query: { limit: 1 } })
  const { data: invitations, refetch: refetchInvitations } = useInvitations()
  const isOfMembers = tab !== 'invitations'
  // The lists load again, so their counts must, too.
  useEffect(() => {
    inviting.forget()
    refetch({ cancelRefetch: false })
    refetchInvitations({ cancelRefetch: false })
  }, [isOfMembers])
  const link = (words: string, to: string, count: number | undefined, isCurrent: boolean) => (
    <a class="tab" href={to} aria-current={isCurrent ? 'page' : undefined}>
      {words} <span class="quiet">{count?.toLocaleString(LOCALE)}</span>
    </a>
  )
  return (
    <>
      <div class="heading">
        <Title>Members</Title>
        <div class="choices">
          <AddServiceAccount issuing={issuing} />
          <Invite change={inviting} />
        </div>
      </div>
      <Outcome of={inviting} isOfForm />
      <NewPasswords session={session} issuing={issuing} />
      <section class="part" aria-labelledby="list">
        <h2 class="hidden" id="list">
          {isOfMembers ? 'All members' : 'Open invitations'}
        </h2>
        <nav class="tabs" aria-label="Members and invitations">
          {link('Members', '/members', data?.total, isOfMembers)}
          {link('Invitations', '/members?tab=invitations', invitations?.length, !isOfMembers)}
        </nav>
        {isOfMembers ? (
          <MemberList session={session} issuing={issuing} onDeleted={refetch} />
        ) : (
          <Invitations />
        )}
      </section>
    </>
  )
}

interface ListProps {
  session: Session
  issuing: Issuing
  onDeleted: () => void
}

function MemberList({ session, issuing, onDeleted }: ListProps) {
  const filter = useFilter()
  const { pages, first, change, moreButton } = usePages('GET /auth/members', { limit: 50, ...filter })
  const members = pages.flatMap((page) => page.members)
  const total = pages[0]?.total ?? 0
  const policy = useRead('GET /auth/company/security').data?.secondFactor ?? 'optional'
  const deletion = useChange()
  const reload = useReload()

  function edit(id: string, changed?: Member): void {
    change((all) => {
      const isGone = !changed && all.some(({ members }) => members.some((member) => member.id === id))
      return all.map((page) => ({
        ...page,
        members: page.members.flatMap((member) => (member.id === id ? (changed ?? []) : member)),
        total: page.total - Number(isGone),
      }))
    })
    if (!changed) onDeleted()
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
        {isFiltered && <a href="/members">Clear filters</a>}
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
        <MemberTable
          members={members}
          policy={policy}
          session={session}
          issuing={issuing}
          deletion={deletion}
          onChanged={edit}
        />
      )}
      {moreButton('Show more')}
    </>
  )
}
