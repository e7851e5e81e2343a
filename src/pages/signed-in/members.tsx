import { useState } from 'preact/hooks'
import { Section, Title } from '../parts.tsx'
import { usePages, useRead, useReload, Waiting } from '../queries.tsx'
import { useQuery } from '../router.ts'
import type { Member, Session } from '../routes.ts'
import { Invitations } from './invitations.tsx'
import { Invite } from './invite.tsx'
import { MemberFilter } from './member-filter.tsx'
import { MemberTable } from './member-table.tsx'
import { type NewPassword, NewPasswords } from './new-passwords.tsx'
import { Notice, type Said } from './notice.tsx'
import { asks } from './policy.tsx'
import { isRole } from './role-select.tsx'
import { AddServiceAccount } from './service-account.tsx'

export function MembersPage({ session }: { session: Session }) {
  const reload = useReload()
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
      <MemberList session={session} onPassword={show} />
      <Invite />
      <Invitations />
      <AddServiceAccount
        onAdded={(password) => {
          show(password)
          reload('GET /auth/members')
        }}
      />
    </>
  )
}

interface ListProps {
  session: Session
  onPassword: (password: NewPassword) => void
}

const STATUSES = ['active', 'disabled'] as const

function MemberList({ session, onPassword }: ListProps) {
  const [query] = useQuery()
  const { search, role, status } = query
  const filter = {
    search: search?.slice(0, 100),
    role: isRole(role) ? role : undefined,
    status: STATUSES.find((one) => one === status),
  }
  const { pages, first, change, moreButton } = usePages('GET /auth/members', { limit: 50, ...filter })
  const members = pages.flatMap((page) => page.members)
  const total = pages[0]?.total ?? 0
  const policy = useRead('GET /auth/company/security').data?.secondFactor ?? 'optional'
  const [said, setSaid] = useState<Said | null>(null)

  function replace(changed: Member): void {
    const edit = (member: Member) => (member.id === changed.id ? changed : member)
    change((all) => all.map((page) => ({ ...page, members: page.members.map(edit) })))
  }
  function remove({ id, name }: Member): void {
    change((all) => {
      const isCounted = all.some(({ members }) => members.some((member) => member.id === id))
      return all.map((page) => ({
        ...page,
        members: page.members.filter((member) => member.id !== id),
        total: page.total - Number(isCounted),
      }))
    })
    setSaid({ text: `${name} was deleted.` })
  }
  const isFiltered = Object.values(filter).some(Boolean)
  return (
    <Section id="members" title="All members" aside={<a href="#invite">Invite people</a>}>
      <MemberFilter />
      <p class="list-count" role="status">
        {members.length > 0 && countInWords({ total, shown: members.length, isFiltered })}
        {first.data && members.length === 0 && 'No members match. Change the search or the filters.'}
      </p>
      {policy !== 'optional' && (
        <p class="hint">
          Your company requires a second factor for {policy === 'admins' ? 'admins' : 'everyone'}, as set
          under <a href="/company">Company</a>. Members who don't have one must add it before they continue.
        </p>
      )}
      <Waiting of={first} />
      <Notice said={said} />
      {members.length > 0 && (
        <MemberTable
          members={members}
          selfId={session.user.id}
          isAsked={({ kind, role }) => kind === 'person' && asks(policy, role)}
          onPassword={onPassword}
          onChanged={replace}
          onDeleted={remove}
        />
      )}
      {moreButton('Show more')}
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
