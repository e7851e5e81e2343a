import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import { useRead } from '../queries.tsx'
import type { Answer } from '../routes.ts'
import { Confirm } from './confirm.tsx'

interface Props {
  current: string | null
  onSaved: (company: Answer<'PATCH /auth/company'>) => void
}

/** The service's rule, so that an invalid handle is refused before the confirmation. */
const FORM = /^[a-z][a-z0-9-]{1,38}[a-z0-9]$/
const NOT_OF_FORM =
  'must have 3 to 40 lowercase letters, digits, or hyphens, start with a letter, and end with a letter or digit'

/** The handle names the company at sign-in. After a change, the previous one no longer works. */
export function HandleSection({ current, onSaved }: Props) {
  const [asked, setAsked] = useState<{ handle: string; answer: (isSure: boolean) => void } | null>(null)
  const [done, setDone] = useState('')

  async function save({ handle: typed }: Values): Promise<void> {
    setDone('')
    const handle = typed.trim().toLowerCase()
    if (handle === current) return setDone('No changes to save.')
    if (!FORM.test(handle))
      throw new ApiError('invalid_request', NOT_OF_FORM, { fields: { handle: NOT_OF_FORM } })
    const isSure = current === null || (await new Promise((answer) => setAsked({ handle, answer })))
    setAsked(null)
    if (!isSure) return
    const saved = await call('PATCH /auth/company', { body: { handle } })
    onSaved(saved)
    setDone(`Handle saved. Everyone now signs in with ${saved.handle}.`)
  }

  return (
    <Section id="handle" title="Handle">
      <p class="lead">Members enter it to sign in.</p>
      <Form action="Save handle" onSubmit={save}>
        {(faults) => (
          <Field
            label="Handle"
            name="handle"
            autoComplete="off"
            value={current ?? ''}
            hint="3 to 40 letters, digits, or hyphens, starting with a letter. You can change it five times a day."
            error={faults['handle']}
          />
        )}
      </Form>
      <p role="status" class="done">
        {done}
      </p>
      {asked && current && (
        <Confirm
          title={`Change the handle to ${asked.handle}?`}
          action="Change handle"
          onConfirm={() => asked.answer(true)}
          onCancel={() => asked.answer(false)}
        >
          <Effect current={current} />
        </Confirm>
      )}
    </Section>
  )
}

/** Affected members. Only service accounts have emails with this ending. */
function useConcerned(search?: string): number | undefined {
  return useRead('GET /auth/members', { query: { limit: 1, status: 'active', search } }).data?.total
}

function Effect({ current }: { current: string }) {
  const all = useConcerned()
  const services = useConcerned('@service.invalid')
  return (
    <>
      <p>
        <code>{current}</code> stops working immediately. Nobody is signed out.
      </p>
      <p>
        <strong>
          {all === undefined || services === undefined ? 'Members' : inWords(all - services, 'member')}
        </strong>
        : enter the new handle at the next sign-in. Browsers that remember the company need no change.
      </p>
      {services !== 0 && (
        <p>
          <strong>
            {services === undefined ? 'Service accounts' : inWords(services, 'service account')}
          </strong>
          : programs that send the old handle as <code>company</code> are refused until you update them.
          Programs that send <code>companyId</code> need no change.
        </p>
      )}
      <p>Your last two handles stay reserved for your company, so you can change back.</p>
    </>
  )
}

function inWords(count: number, what: string): string {
  return `${count.toLocaleString()} ${what}${count === 1 ? '' : 's'}`
}
