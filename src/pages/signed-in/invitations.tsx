import { useQuery } from '@tanstack/preact-query'
import { call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { Time } from '../parts.tsx'
import { polled, useReload, Waiting } from '../queries.tsx'
import type { Answer } from '../routes.ts'
import { ConfirmButton } from './dialog-button.tsx'
import { ListHead } from './list-head.tsx'

type Invitation = Answer<'GET /auth/invitations'>['invitations'][number]

const POLL_MS = 3_000
const MAX_PAGES = 10
const MAIL: Record<Invitation['mail'], string> = {
  waiting: 'email queued',
  sent: 'email sent',
  failed: "email couldn't be sent",
}

async function readPages(signal: AbortSignal, pages = MAX_PAGES, cursor?: string): Promise<Invitation[]> {
  const query = { limit: 100, cursor }
  const { invitations, nextCursor } = await call('GET /auth/invitations', { query, signal })
  if (nextCursor === null || pages === 1) return invitations
  return [...invitations, ...(await readPages(signal, pages - 1, nextCursor))]
}

/** The open invitations. Polls while an email is queued. */
export function useInvitations(refetchOnMount = true) {
  const { refetchInterval, ...options } = polled(POLL_MS)
  return useQuery({
    ...options,
    refetchOnMount,
    queryKey: ['GET /auth/invitations'],
    queryFn: ({ signal }) => readPages(signal),
    refetchInterval: (query) =>
      query.state.data?.some(({ mail }) => mail === 'waiting') === true && refetchInterval(query),
  })
}

/** Open invitations end when their sender loses the right to invite. */
export function useEnding(memberId: string): string {
  const sent = useInvitations(false).data?.filter(({ invitedBy }) => invitedBy?.id === memberId).length
  if (!sent) return ''
  return sent === 1
    ? 'The open invitation they sent stops working.'
    : `The ${sent} open invitations they sent stop working.`
}

const COLUMNS = { Email: '36%', Role: '6rem', Status: '15rem', Actions: '13rem' }

export function Invitations() {
  const loaded = useInvitations()
  const reload = useReload()
  const change = useChange()
  const resend = ({ id, email }: Invitation) =>
    change.run(async () => {
      await call('POST /auth/invitations/:id/resend', { id })
      reload('GET /auth/invitations')
      return `Sent again to ${email}.`
    })
  async function withdraw({ id, email }: Invitation): Promise<string> {
    await call('DELETE /auth/invitations/:id', { id })
    reload('GET /auth/invitations')
    return `Invitation for ${email} withdrawn.`
  }
  return (
    <>
      <Outcome of={change} isOfForm />
      <Waiting of={loaded} />
      {loaded.data?.length === 0 && <p class="quiet">No open invitations. Invite people above.</p>}
      {loaded.data && loaded.data.length > 0 && (
        <table class="list" aria-labelledby="list">
          <ListHead columns={COLUMNS} buttons="Actions" />
          <tbody>
            {loaded.data.map((invitation) => {
              const { id, email, role, mail, expiresAt, invitedBy } = invitation
              return (
                <tr key={id} class="list-row">
                  <th scope="row">
                    <span class="list-line list-name" title={email} translate={false}>
                      {email}
                    </span>
                    <span class="quiet list-line">
                      by {invitedBy ? (invitedBy.email ?? 'a deleted member') : 'an operator'}
                    </span>
                  </th>
                  <td data-label="Role">{role}</td>
                  <td data-label="Status">
                    <span class={mail === 'failed' ? 'error' : undefined}>{MAIL[mail]}</span>
                    {expiresAt && (
                      <span class="quiet list-line">
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
                        aria-disabled={change.isBusy}
                        onClick={() => resend(invitation)}
                      >
                        Send again
                      </button>
                      <ConfirmButton
                        label="Withdraw"
                        of={`the invitation for ${email}`}
                        change={change}
                        onConfirm={() => withdraw(invitation)}
                      >
                        <p>The link in their email stops working immediately. You can invite them again.</p>
                      </ConfirmButton>
                    </div>
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      )}
    </>
  )
}
