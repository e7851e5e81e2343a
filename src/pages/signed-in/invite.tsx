import { useId, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import { RoleSelect } from './role-select.tsx'

/** Faults of one email, which say nothing of the others. */
const OF_ONE: Partial<Record<string, string>> = {
  invalid_request: "isn't an email address",
  already_member: 'is a member already',
}

interface Failure {
  email: string
  why: string
}

/** Invites one or many, one after the other. Those who could not be invited stay in the box. */
export function Invite({ onInvited }: { onInvited: () => void }) {
  const [text, setText] = useState('')
  const [failures, setFailures] = useState<Failure[]>([])
  const [said, setSaid] = useState('')
  const [isSending, setSending] = useState(false)
  const emails = emailsIn(text)

  async function invite({ role }: Values): Promise<void> {
    setFailures([])
    setSaid('')
    if (emails.length === 0) fail('Enter at least one email.')
    setSending(true)
    const failed: Failure[] = []
    const left = [...emails]
    const invited: string[] = []
    let stop: ApiError | undefined
    for (const email of emails) {
      if (emails.length > 1) setSaid(`Inviting ${invited.length + failed.length + 1} of ${emails.length}…`)
      const fault = await call('POST /auth/invitations', { body: { email, role } }).then(
        () => null,
        toApiError,
      )
      const why = fault && OF_ONE[fault.code]
      if (fault && why === undefined) {
        stop = fault
        break
      }
      left.shift()
      if (why) failed.push({ email, why })
      else invited.push(email)
    }
    setSending(false)
    setText([...failed.map(({ email }) => email), ...left].join('\n'))
    setFailures(failed)
    setSaid(invitedInWords(invited))
    if (invited.length > 0) onInvited()
    if (stop) fail(left.length > 1 ? `${stop.message} ${left.length} people weren't invited.` : stop.message)
    if (failed.length > 0)
      fail(failed.length > 1 ? `${failed.length} people weren't invited:` : 'Not invited:')
  }

  return (
    <Section id="invite" title="Invite people">
      <Form action={emails.length > 1 ? `Invite ${emails.length} people` : 'Invite'} onSubmit={invite}>
        {(faults) => (
          <>
            <Emails
              text={text}
              isFixed={isSending}
              fault={faults['emails']}
              failures={failures}
              onInput={setText}
            />
            <RoleSelect />
          </>
        )}
      </Form>
      <p role="status" class="done">
        {said}
      </p>
    </Section>
  )
}

/** Of the field, so that the focus goes there. */
function fail(emails: string): never {
  throw new ApiError('not_invited', emails, { fields: { emails } })
}

function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  throw error
}

interface EmailsProps {
  text: string
  isFixed: boolean
  fault: string | undefined
  failures: Failure[]
  onInput: (text: string) => void
}

function Emails({ text, isFixed, fault, failures, onInput }: EmailsProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>Email addresses</label>
      <textarea
        id={id}
        class="emails"
        name="emails"
        rows={Math.min(8, Math.max(2, text.split('\n').length))}
        autoComplete="off"
        spellcheck={false}
        autocapitalize="none"
        value={text}
        readOnly={isFixed}
        aria-invalid={fault !== undefined}
        aria-describedby={`${id}-hint${fault ? ` ${id}-error` : ''}`}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      <p class="hint" id={`${id}-hint`}>
        One or many, separated by commas, semicolons, spaces or lines.
      </p>
      {fault && (
        <div class="error" id={`${id}-error`}>
          <p>{fault}</p>
          {failures.length > 0 && (
            <ul class="failures">
              {failures.map(({ email, why }) => (
                <li key={email}>
                  {email} {why}.
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </div>
  )
}

function invitedInWords(invited: string[]): string {
  if (invited.length === 0) return ''
  return invited.length === 1
    ? `An invitation is on its way to ${invited[0]}.`
    : `${invited.length} invitations are on their way.`
}

/** "Ada Lovelace <ada@acme.example>", as mail programs copy it. */
const WITH_NAME = /[^,;\n<>]*<([^<>\s]*)>/g

/** Each once, in order. */
function emailsIn(text: string): string[] {
  const words = text.replace(WITH_NAME, ' $1 ').split(/[\s,;]+/)
  return [...new Map(words.filter(Boolean).map((email) => [email.toLowerCase(), email])).values()]
}
