import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { useLoaded } from '../data.tsx'
import { Field, Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import type { Answer } from '../routes.ts'
import { Confirm } from './confirm.tsx'

interface Props {
  current: string | null
  onSaved: (company: Answer<'PATCH /auth/company'>) => void
}

/** As the service checks it, so that nobody is asked about a handle that cannot be. */
const FORM = /^[a-z][a-z0-9-]{1,38}[a-z0-9]$/
const NOT_OF_FORM = 'must have 3 to 40 of a-z, 0-9 and -, begin with a letter and end with a letter or digit'

/** The handle, by which people and programs name the company when they sign in. A former one signs nobody in. */
export function HandleSection({ current, onSaved }: Props) {
  const [asked, setAsked] = useState<{ handle: string; answer: (isSure: boolean) => void } | null>(null)
  const [done, setDone] = useState('')

  async function save({ handle: typed }: Values): Promise<void> {
    setDone('')
    const handle = typed.trim().toLowerCase()
    if (handle === current) return setDone('Nothing has changed.')
    if (!FORM.test(handle))
      throw new ApiError('invalid_request', NOT_OF_FORM, { fields: { handle: NOT_OF_FORM } })
    const isSure = current === null || (await new Promise((answer) => setAsked({ handle, answer })))
    setAsked(null)
    if (!isSure) return
    const saved = await call('PATCH /auth/company', { body: { handle } })
    onSaved(saved)
    setDone(`Saved. Everyone signs in with ${saved.handle} from now on.`)
  }

  return (
    <Section id="handle" title="Handle">
      <p class="lead">What people type to sign in.</p>
      <Form action="Save handle" onSubmit={save}>
        {(faults) => (
          <Field
            label="Handle"
            name="handle"
            value={current ?? ''}
            hint="3 to 40 letters, digits and hyphens, beginning with a letter. Five changes a day."
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

/** Whom it concerns. Service accounts are those with this ending, which no person can have. */
async function countConcerned() {
  const count = async (search?: string) => {
    const query = { limit: 1, status: 'active', search } as const
    return (await call('GET /auth/members', { query })).total
  }
  const [all, services] = await Promise.all([count(), count('@service.invalid')])
  return { people: all - services, services }
}

function Effect({ current }: { current: string }) {
  const { value } = useLoaded(countConcerned)
  return (
    <>
      <p>
        <code>{current}</code> stops working at once. Nobody is signed out.
      </p>
      <p>
        <strong>{value ? inWords(value.people, 'member') : 'Members'}</strong>: from their next sign-in on,
        they type the new handle. A browser that remembers the company needs no change.
      </p>
      {value?.services !== 0 && (
        <p>
          <strong>{value ? inWords(value.services, 'service account') : 'Service accounts'}</strong>: a
          program that sends the old handle as <code>company</code> is refused until you change that. One that
          sends <code>companyId</code> needs no change.
        </p>
      )}
      <p>Your last two handles stay reserved for your company, so you can change back.</p>
    </>
  )
}

function inWords(count: number, what: string): string {
  return `${count.toLocaleString()} ${what}${count === 1 ? '' : 's'}`
}
