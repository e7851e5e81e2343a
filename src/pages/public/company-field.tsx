import { useState } from 'preact/hooks'
import { Field, TAKES_FOCUS, type Values } from '../form.tsx'
import { LinkButton } from '../parts.tsx'
import { type Company, readCompany, rememberCompany } from '../remembered.ts'
import { fragment } from '../router.ts'

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The company in a request: its ID if known, or else its handle. */
type Named = { companyId: string } | { company: string }

function toNamed(text: string): Named {
  return ID.test(text) ? { companyId: text } : { company: text.toLowerCase() }
}

/** The company of a form: from a link, remembered, or typed. `at` is the text before its name. */
export function useCompany(at: string, given: Company | null = null) {
  const linked = fragment.get('company') ?? ''
  /** The last input that was read, which a form restores when it appears again. */
  const [typed, setTyped] = useState('')
  const [known, setKnown] = useState<Company | null>(() => given ?? remembered(linked))
  const [isForgotten, setForgotten] = useState(false)
  const isMissing = !known && !typed && !linked

  function forget(): void {
    rememberCompany(null)
    fragment.delete('company')
    setKnown(null)
    setForgotten(true)
  }

  function read(values: Values): Named {
    if (known) return toNamed(known.id ?? known.handle ?? '')
    const company = values.company.trim()
    setTyped(company)
    setForgotten(false)
    return toNamed(company)
  }

  return {
    known,
    typed,
    isMissing,
    read,
    field: (isFirst = true) =>
      known ? (
        <p class="chosen">
          {at} <strong>{known.name}</strong> · <LinkButton onClick={forget}>Not your company?</LinkButton>
        </p>
      ) : (
        <Field
          label="Company"
          name="company"
          // The browser would enter the name of a company, which is not its handle.
          autoComplete="off"
          value={typed || linked}
          hasFocus={isForgotten || (TAKES_FOCUS && isFirst && isMissing)}
          hint={
            <>
              For example, acme-4821. You'll find it in our emails. Not working?{' '}
              <a href="/companies">Find your company</a>.
            </>
          }
        />
      ),
  }
}

/** Null if the link is for a company other than the remembered one. */
function remembered(linked: string): Company | null {
  const company = readCompany()
  return company && ['', company.id, company.handle].includes(linked) ? company : null
}
