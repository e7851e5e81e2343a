import { useId, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Form, type Values } from '../form.tsx'
import { useLoss } from '../leaving.tsx'
import type { Change } from '../outcome.tsx'
import { useReload } from '../queries.tsx'
import { DialogButton } from './dialog-button.tsx'
import { type Invitee, inviteesIn, toLine } from './invitees.ts'
import { useMailProof } from './mailbox-proof.tsx'
import { RoleSelect } from './role-select.tsx'

/** Errors that concern only one email. */
const OF_ONE: Partial<Record<string, string>> = {
  invalid_request: "isn't an email address",
  already_member: 'is already a member',
}

/** How the last run ended, if not everyone was invited. */
interface Report {
  done: string
  fault: string
  failed: (Invitee & { why: string })[]
}

/** Sends invitations one at a time, even after the dialog closes. Emails that are not invited stay in the text field. */
export function Invite({ change }: { change: Change }) {
  const reload = useReload()
  const { prove, dialog } = useMailProof('admin')
  const [text, setText] = useState('')
  const [report, setReport] = useState<Report | null>(null)
  const [progress, setProgress] = useState<string | undefined>()
  const id = useId()
  const people = inviteesIn(text)
  useLoss(change.isBusy ? 'Not everyone is invited yet. Wait for it.' : null)

  async function inviteAll(values: Values): Promise<string> {
    const failed: Report['failed'] = []
    const invited: string[] = []
    let fault = people.length === 0 ? 'Enter at least one email.' : ''
    setReport(null)
    for (const [n, person] of people.entries()) {
      if (people.length > 1) setProgress(`Inviting ${n + 1} of ${people.length}…`)
      const { email, role = values.role } = person
      try {
        await prove(email, (mailCode) => call('POST /auth/invitations', { body: { email, role, mailCode } }))
        invited.push(email)
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        const left = people.length - n
        const why = OF_ONE[error.code]
        if (!why) {
          fault = error.message + (left > 1 ? ` ${left} people weren't invited.` : '')
          break
        }
        failed.push({ ...person, why })
      }
      setText([...failed, ...people.slice(n + 1)].map(toLine).join('\n'))
    }
    setProgress(undefined)
    if (invited.length > 0) reload('GET /auth/invitations')
    const done = invitedInWords(invited)
    if (failed.length > 0)
      fault ||= failed.length > 1 ? `${failed.length} people weren't invited:` : 'Not invited:'
    if (fault) {
      setReport({ done, fault, failed })
      const closed = `${done} Some people weren't invited. To see why, choose “Invite people”.`.trim()
      throw new ApiError('not_invited', closed, { fields: { emails: fault } })
    }
    return done
  }

  function closeReport(): void {
    setReport(null)
    if (report?.done) change.run(async () => report.done)
  }

  return (
    <>
      <DialogButton
        class="primary"
        title="Invite people"
        change={change}
        onClosed={closeReport}
        dialog={(form) => (
          <>
            <Form
              {...form}
              action={people.length > 1 ? `Invite ${people.length} people` : 'Invite'}
              progress={progress}
              onSubmit={inviteAll}
            >
              <div class="field">
                <label for={id}>Email addresses</label>
                <textarea
                  id={id}
                  name="emails"
                  rows={6}
                  autofocus
                  autoComplete="off"
                  spellcheck={false}
                  autocapitalize="none"
                  value={text}
                  readOnly={change.isBusy}
                  aria-invalid={report !== null}
                  aria-describedby={report ? `${id}-hint ${id}-error` : `${id}-hint`}
                  onInput={({ currentTarget }) => setText(currentTarget.value)}
                />
                <p class="quiet" id={`${id}-hint`}>
                  Paste any list. To give one person a different role, add it after their email:{' '}
                  <code>{'ann@example.com,\u00a0analyst'}</code>
                </p>
                {report && (
                  <div class="error" id={`${id}-error`}>
                    {report.done && <p class="quiet">{report.done}</p>}
                    <p>{report.fault}</p>
                    <ul>
                      {report.failed.map(({ email, why }) => (
                        <li key={email}>
                          {email} {why}.
                        </li>
                      ))}
                    </ul>
                  </div>
                )}
              </div>
              <RoleSelect />
            </Form>
            <span class="hidden" role="status">
              {progress && <span key={progress}>{progress}</span>}
            </span>
          </>
        )}
      >
        Invite people
      </DialogButton>
      {dialog}
    </>
  )
}

function invitedInWords(invited: string[]): string {
  if (invited.length === 0) return ''
  return invited.length === 1
    ? `An invitation is on its way to ${invited[0]}.`
    : `${invited.length} invitations are on their way.`
}
