import { useId, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import { useReload } from '../queries.tsx'
import { AdminProof, needsMailCode } from './admin-proof.tsx'
import { type Invitee, inviteesIn, toLine } from './invitees.ts'
import { RoleSelect } from './role-select.tsx'

/** Errors that concern only one email. */
const OF_ONE: Partial<Record<string, string>> = {
  invalid_request: "isn't an email address",
  already_member: 'is already a member',
}

interface Failure extends Invitee {
  why: string
}

/** The first of these people becomes an admin, which takes an emailed code. */
interface Unproven {
  people: Invitee[]
  role: string
  /** Failures before them. */
  failed: Failure[]
}

/** Sends invitations one at a time. Emails that fail stay in the text field. */
export function Invite() {
  const reload = useReload()
  const [text, setText] = useState('')
  const [failures, setFailures] = useState<Failure[]>([])
  const [said, setSaid] = useState('')
  const [isSending, setSending] = useState(false)
  const [unproven, setUnproven] = useState<Unproven | null>(null)
  const [fault, setFault] = useState<string | undefined>()
  const people = inviteesIn(text)

  async function inviteAll({ role }: Values): Promise<void> {
    if (people.length === 0) fail('Enter at least one email.')
    await invite({ people, role, failed: [] })
  }

  /** Failures after the code show at the text field, which replaces the code's form. */
  const proceed = (given: Unproven) => async (mailCode: string) =>
    await invite(given, mailCode).catch((error: unknown) => {
      if (!(error instanceof ApiError) || error.code !== NOT_INVITED) throw error
      setFault(error.message)
    })

  async function invite({ people, role, failed: before }: Unproven, mailCode?: string): Promise<void> {
    setFailures([])
    setFault(undefined)
    setSaid('')
    setSending(true)
    const failed = [...before]
    const left = [...people]
    const invited: string[] = []
    let stop: ApiError | undefined
    let isUnproven = false
    for (const person of people) {
      if (people.length > 1) setSaid(`Inviting ${invited.length + failed.length + 1} of ${people.length}…`)
      const { email } = person
      const code = person === people[0] ? mailCode : undefined
      const body = { email, role: person.role ?? role, mailCode: code }
      const fault = await call('POST /auth/invitations', { body }).then(() => null, toApiError)
      isUnproven = needsMailCode(fault)
      if (isUnproven && code !== undefined) {
        setSending(false)
        setSaid('')
        throw fault
      }
      if (isUnproven) break
      const why = fault && OF_ONE[fault.code]
      if (fault && why === undefined) {
        stop = fault
        break
      }
      left.shift()
      if (why) failed.push({ ...person, why })
      else invited.push(email)
    }
    setSending(false)
    setUnproven(isUnproven ? { people: left, role, failed } : null)
    setText([...failed, ...left].map(toLine).join('\n'))
    setFailures(failed)
    setSaid(invitedInWords(invited))
    if (invited.length > 0) reload('GET /auth/invitations')
    if (isUnproven) return
    if (stop) fail(left.length > 1 ? `${stop.message} ${left.length} people weren't invited.` : stop.message)
    if (failed.length > 0)
      fail(failed.length > 1 ? `${failed.length} people weren't invited:` : 'Not invited:')
  }

  return (
    <Section id="invite" title="Invite people">
      {unproven ? (
        <AdminProof
          key={unproven.people.length}
          whom={unproven.people[0]?.email ?? ''}
          onGiven={proceed(unproven)}
          onCancel={() => setUnproven(null)}
        />
      ) : (
        <Form action={people.length > 1 ? `Invite ${people.length} people` : 'Invite'} onSubmit={inviteAll}>
          {(faults) => (
            <>
              <Emails
                text={text}
                isFixed={isSending}
                fault={faults['emails'] ?? fault}
                failures={failures}
                onInput={setText}
              />
              <RoleSelect />
            </>
          )}
        </Form>
      )}
      <p role="status" class="done">
        {said}
      </p>
    </Section>
  )
}

const NOT_INVITED = 'not_invited'

/** An error of the field, so that the focus goes there. */
function fail(emails: string): never {
  throw new ApiError(NOT_INVITED, emails, { fields: { emails } })
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
        Separate emails with commas, semicolons, spaces, or new lines. To give one person a different role,
        add it after their email: <code>{'ann@example.com,\u00a0analyst'}</code>
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
