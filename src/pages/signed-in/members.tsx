import { useId, useState } from 'preact/hooks'
import { call, type Member, type Members, type Session } from '../api.ts'
import { usePages, Waiting } from '../loading.tsx'
import { Section, Title } from '../parts.tsx'
import { AddServer } from './add-server.tsx'
import { Invitations, Invite } from './invitations.tsx'
import { MemberDetails } from './member-details.tsx'

/** The people and servers of the company. */
export function MembersPage({ session }: { session: Session }) {
  const [invited, setInvited] = useState(0)
  const [added, setAdded] = useState(0)
  return (
    <>
      <Title>Members</Title>
      <Invite onInvited={() => setInvited(invited + 1)} />
      <Invitations turn={invited} />
      <MemberList session={session} turn={added} />
      <AddServer session={session} onAdded={() => setAdded(added + 1)} />
    </>
  )
}

async function loadMembers(search: string, cursor: string | null) {
  const query = new URLSearchParams({ limit: '50', ...(search && { search }), ...(cursor && { cursor }) })
  const { members: rows, nextCursor } = await call<Members>(`/auth/members?${query}`, { method: 'GET' })
  return { rows, nextCursor }
}

function MemberList({ session, turn }: { session: Session; turn: number }) {
  const [search, setSearch] = useState('')
  const members = usePages<Member>((cursor) => loadMembers(search, cursor), [turn, search])
  const id = useId()
  return (
    <Section id="members" title="All members">
      <div class="field">
        <label for={id}>Search in names and e-mails</label>
        <input id={id} type="search" onInput={(event) => setSearch(event.currentTarget.value.trim())} />
      </div>
      <Waiting of={members.first} />
      {members.first.value && members.rows.length === 0 && <p class="empty">No member is called that.</p>}
      <ul class="rows">
        {members.rows.map((member) => (
          <li key={member.id}>
            <details>
              <summary>
                <strong>{member.name}</strong> <span class="quiet">{member.email}</span>
                {member.id === session.user.id && <span class="tag">you</span>}
                {member.kind === 'service' && <span class="tag">server</span>}
                {member.kind === 'person' && member.secondFactors.length === 0 && (
                  <span class="tag">no second factor</span>
                )}
                {member.status === 'disabled' && <span class="tag">disabled</span>}
                <span class="tag">{member.role}</span>
              </summary>
              <MemberDetails
                member={member}
                isSelf={member.id === session.user.id}
                onChanged={members.replace}
                onDeleted={() => members.remove(member.id)}
              />
            </details>
          </li>
        ))}
      </ul>
      {members.moreButton('Show more')}
    </Section>
  )
}
