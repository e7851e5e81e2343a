import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { Section, Time } from '../parts.tsx'
import { polled, useReload, Waiting } from '../queries.tsx'
import type { Answer } from '../routes.ts'
import { Confirm } from './confirm.tsx'
import { Notice, type Said } from './notice.tsx'

type Invitation = Answer<'GET /auth/invitations'>['invitations'][number]

const POLL_MS = 3_000
const MAX_PAGES = 10
const MAIL: Record<Invitation['mail'], string> = {
  waiting: 'email queued',
  sent: 'email sent',
  failed: "email couldn't be sent",
}

async function readAll(signal: AbortSignal): Promise<Invitation[]> {
  const read: Invitation[] = []
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = { limit: 100, cursor }
    const { invitations, nextCursor } = await call('GET /auth/invitations', { query, signal })
    read.push(...invitations)
    if (nextCursor === null) break
    cursor = nextCursor
  }
  return read
}

/** The open invitations. Polls while an email is queued. */
function useInvitations(refetchOnMount = true) {
  const { refetchInterval, ...options } = polled(POLL_MS)
  return useQuery({
    ...options,
    refetchOnMount,
    queryKey: ['GET /auth/invitations'],
    queryFn: ({ signal }) => readAll(signal),
    refetchInterval: (query) =>
      query.state.data?.some(({ mail }) => mail === 'waiting') === true && refetchInterval(query),
  })
}

/** How many open invitations a member sent. */
export function useSent(memberId: string): number {
  return useInvitations(false).data?.filter(({ invitedBy }) => invitedBy?.id === memberId).length ?? 0
}

export function Invitations() {
  const loaded = useInvitations()
  const reload = useReload()
  const change = useChange()
  const [withdrawn, setWithdrawn] = useState<Invitation | null>(null)
  const [said, setSaid] = useState<Said | null>(null)
  const invitations = loaded.data ?? []
  const resend = ({ id, email }: Invitation) =>
    change.run(async () => {
      setSaid(null)
      await call('POST /auth/invitations/:id/resend', { id })
      setSaid({ text: `Sent again to ${email}.`, keepsFocus: true })
      reload('GET /auth/invitations')
    })
  async function withdraw({ id, email }: Invitation): Promise<void> {
    await call('DELETE /auth/invitations/:id', { id })
    setWithdrawn(null)
    setSaid({ text: `Invitation for ${email} withdrawn.` })
    reload('GET /auth/invitations')
  }
  return (
    <Section id="invitations" title="Open invitations">
      <Outcome of={change} />
      <Waiting of={loaded} />
      {loaded.data && invitations.length === 0 && (
        <p class="empty">No open invitations. Invite people above.</p>
      )}
      {invitations.length > 0 && (
        <table class="list" aria-labelledby="invitations">
          <thead class="list-head">
            <tr>
              <th scope="col" class="list-first">
                Email
              </th>
              <th scope="col" class="list-role">
                Role
              </th>
              <th scope="col" class="list-status">
                Status
              </th>
              <th scope="col" class="list-acts">
                <span class="hidden">Send again or withdraw</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {invitations.map((invitation) => (
              <Row
                key={invitation.id}
                invitation={invitation}
                isBusy={change.isBusy}
                onResend={() => resend(invitation)}
                onWithdraw={() => setWithdrawn(invitation)}
              />
            ))}
          </tbody>
        </table>
      )}
      <Notice said={said} />
      {withdrawn && (
        <Confirm
          title={`Withdraw the invitation for ${withdrawn.email}?`}
          action="Withdraw"
          onConfirm={() => withdraw(withdrawn)}
          onCancel={() => setWithdrawn(null)}
        >
          <p>The link in their email stops working immediately. You can invite them again.</p>
        </Confirm>
      )}
    </Section>
  )
}

interface RowProps {
  invitation: Invitation
  isBusy: boolean
  onResend: () => void
  onWithdraw: () => void
}

function Row({ invitation, isBusy, onResend, onWithdraw }: RowProps) {
  const { email, role, mail, expiresAt, invitedBy } = invitation
  return (
    <tr class="list-row">
      <th scope="row" class="list-first">
        <span class="list-name">{email}</span>
        <span class="quiet list-email">
          by {invitedBy ? (invitedBy.email ?? 'a deleted member') : 'an operator'}
        </span>
      </th>
      <td data-label="Role">{role}</td>
      <td data-label="Status">
        <span class={mail === 'failed' ? 'error' : undefined}>{MAIL[mail]}</span>
        {expiresAt && (
          <span class="quiet list-email">
            expires <Time at={expiresAt} />
          </span>
        )}
      </td>
      <td class="list-acts">
        <div class="choices">
          <button
            type="button"
            class="small"
            aria-label={`Send again to ${email}`}
            aria-disabled={isBusy}
            onClick={onResend}
          >
            Send again
          </button>
          <button
            type="button"
            class="small"
            aria-label={`Withdraw the invitation for ${email}`}
            aria-disabled={isBusy}
            onClick={onWithdraw}
          >
            Withdraw
          </button>
        </div>
      </td>
    </tr>
  )
}
