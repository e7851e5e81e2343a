import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { useLoaded, Waiting } from '../data.tsx'
import { usePages } from '../list.tsx'
import { Section, Title } from '../parts.tsx'
import { useQuery } from '../router.ts'
import type { Member, Session } from '../routes.ts'
import { Invitations, useInvitations } from './invitations.tsx'
import { Invite } from './invite.tsx'
import { MemberFilter } from './member-filter.tsx'
import { MemberTable } from './member-table.tsx'
import { type NewPassword, NewPasswords } from './new-passwords.tsx'
import { Notice, type Said } from './notice.tsx'
import { asks } from './policy.tsx'
import { isRole } from './role-select.tsx'
import { AddServiceAccount } from './service-account.tsx'

export function MembersPage({ session }: { session: Session }) {
  const invitations = useInvitations()
  const [added, setAdded] = useState(0)
  const [passwords, setPasswords] = useState<NewPassword[]>([])
  const [said, setSaid] = useState<Said | null>(null)
  /** Replaces the account's previous password. */
  const show = (password: NewPassword) =>
    setPasswords((all) => [password, ...all.filter(({ email }) => email !== password.email)])
  return (
    <>
      <Title>Members</Title>
      <Notice said={said} />
      <NewPasswords
        session={session}
        passwords={passwords}
        onStored={(stored) => {
          setPasswords((all) => all.filter((one) => one !== stored))
          setSaid({ text: `The password for ${stored.name} is no longer shown.` })
        }}
      />
      <MemberList
        session={session}
        turn={added}
        countSent={invitations.countOf}
        onPassword={show}
        onDropped={invitations.reload}
      />
      <Invite onInvited={invitations.reload} />
      <Invitations of={invitations} />
      <AddServiceAccount
        onAdded={(password) => {
          show(password)
          setAdded(added + 1)
        }}
      />
    </>
  )
}

interface ListProps {
  session: Session
  /** Changes when a member was added. */
  turn: number
  /** How many open invitations a member sent. */
  countSent: (id: string) => number
  onPassword: (password: NewPassword) => void
  /** A member's invitations may have ended with their role. */
  onDropped: () => void
}

const STATUSES = ['active', 'disabled'] as const

function MemberList({ session, turn, countSent, onPassword, onDropped }: ListProps) {
  const [query] = useQuery()
  const { search, role, status } = query
  const filter = {
    search: search?.slice(0, 100),
    role: isRole(role) ? role : undefined,
    status: STATUSES.find((one) => one === status),
  }
  const members = usePages<Member, { total: number; loaded: number }>(
    async (cursor, signal) => {
      const page = { limit: 50, cursor, ...filter }
      const answer = await call('GET /auth/members', { query: page, ...(signal && { signal }) })
      const { members: rows, total, nextCursor } = answer
      return { rows, nextCursor, total, loaded: rows.length }
    },
    filter,
    turn,
  )
  const { rows, pages, first } = members
  const policy = useLoaded(() => call('GET /auth/company/security')).value?.secondFactor ?? 'optional'
  const [said, setSaid] = useState<Said | null>(null)
  const loaded = pages.reduce((sum, page) => sum + page.loaded, 0)
  /** Without members deleted in the meantime. */
  const total = (pages[0]?.total ?? 0) - (loaded - rows.length)
  const isFiltered = Object.values(filter).some(Boolean)
  return (
    <Section id="members" title="All members" aside={<a href="#invite">Invite people</a>}>
      <MemberFilter />
      <p class="list-count" role="status">
        {first.value && rows.length > 0 && countInWords({ total, shown: rows.length, isFiltered })}
        {first.value && rows.length === 0 && 'No members match. Change the search or the filters.'}
      </p>
      {policy !== 'optional' && (
        <p class="hint">
          Your company requires a second factor for {policy === 'admins' ? 'admins' : 'everyone'}, as set
          under <a href="/company">Company</a>. Members who don't have one must add it before they continue.
        </p>
      )}
      <Waiting of={first} />
      <Notice said={said} />
      {rows.length > 0 && (
        <MemberTable
          members={rows}
          selfId={session.user.id}
          isAsked={({ kind, role }) => kind === 'person' && asks(policy, role)}
          countSent={countSent}
          onPassword={onPassword}
          onDropped={onDropped}
          onChanged={members.replace}
          onDeleted={({ id, name }) => {
            members.remove(id)
            onDropped()
            setSaid({ text: `${name} was deleted.` })
          }}
        />
      )}
      {members.moreButton('Show more')}
    </Section>
  )
}

interface Count {
  total: number
  shown: number
  isFiltered: boolean
}

function countInWords({ total, shown, isFiltered }: Count): string {
  const members = `${total.toLocaleString()} ${total === 1 ? 'member' : 'members'}`
  const matching = isFiltered ? `${members} ${total === 1 ? 'matches' : 'match'}` : members
  return shown < total ? `${matching}, ${shown.toLocaleString()} shown` : matching
}
