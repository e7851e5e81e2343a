import { useEffect } from 'preact/hooks'
import { Outcome, useChange } from '../outcome.tsx'
import { LOCALE, Title } from '../parts.tsx'
import { useRead } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Session } from '../routes.ts'
import { Invitations, useInvitations } from './invitations.tsx'
import { Invite } from './invite.tsx'
import { MemberList } from './member-list.tsx'
import { AddServiceAccount, NewPasswords, useNewPasswords } from './new-passwords.tsx'

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
        {isOfMembers ? <MemberList session={session} issuing={issuing} /> : <Invitations />}
      </section>
    </>
  )
}
