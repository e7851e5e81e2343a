import { useState } from 'preact/hooks'
import { type Faults, Field, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { type Company, readCompany, rememberCompany } from '../remembered.ts'
import { fragment } from '../router.ts'

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** As the interface takes it: the id where it is known, since an instance of the release before knows no handles. */
type Named = { companyId: string } | { company: string }

function toNamed({ id, handle }: Omit<Company, 'name'>): Named {
  return id ? { companyId: id } : { company: handle ?? '' }
}

function readTyped(text: string): Named {
  const typed = text.trim()
  return ID.test(typed) ? { companyId: typed } : { company: typed.toLowerCase() }
}

interface Options {
  /** What was typed before, for who begins again. */
  typed?: string | undefined
  /** What is said before its name. */
  at?: string
}

/** Which company a form is about: that of a link, or the remembered one, or one that is typed. */
export function useCompany(given: Company | null, { typed = '', at = 'Signing in to' }: Options = {}) {
  const linked = fragment.get('company') ?? ''
  const [known, setKnown] = useState<Company | null>(() => given ?? remembered(linked))
  const [isForgotten, setForgotten] = useState(false)
  const isMissing = !known && !typed && !linked

  function forget(): void {
    rememberCompany(null)
    fragment.delete('company')
    setKnown(null)
    setForgotten(true)
  }

  return {
    known,
    /** It is not known, and nothing was typed. */
    isMissing,
    read: ({ company }: Values): Named => (known ? toNamed(known) : readTyped(company)),
    field: (faults: Faults, isFirst = true) =>
      known ? (
        <p class="chosen">
          {at} <strong>{known.name}</strong> · <LinkButton onClick={forget}>Not your company?</LinkButton>
        </p>
      ) : (
        <Field
          label="Company"
          name="company"
          autoComplete="organization"
          value={typed || linked}
          hasFocus={isForgotten || (TAKES_FOCUS && isFirst && isMissing)}
          error={faults['company'] ?? faults['companyId']}
          hint={
            <>
              Such as acme-4821. It's in any email from us, but your company may have changed it: if it
              doesn't work, <a href="/companies">find your company</a>.
            </>
          }
        />
      ),
  }
}

/** A link can be to another company than the one that is remembered. */
function remembered(linked: string): Company | null {
  const company = readCompany()
  return company && ['', company.id, company.handle].includes(linked) ? company : null
}
