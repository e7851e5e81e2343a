import { useState } from 'preact/hooks'
import { Field } from '../form.tsx'
import { Link } from '../parts.tsx'
import { readCompany, rememberCompany } from '../remembered-company.ts'
import { fragment } from '../router.ts'

/** Which company a form is about: the remembered one by its name, or that of the link, or one that is typed. */
export function useCompany(typed = '') {
  const [company, setCompany] = useState(readCompany())
  const linked = fragment.get('company')
  const known = linked && linked !== company?.id ? null : company

  function forget(): void {
    rememberCompany(null)
    setCompany(null)
  }

  return {
    isKnown: known !== null,
    /** The id, for the values of the form. */
    of: ({ companyId }: Record<string, string>) => known?.id ?? companyId?.trim() ?? '',
    field: (error: string | undefined) =>
      known ? (
        <p class="chosen">
          <span>
            at <strong>{known.name}</strong>
          </span>
          <button type="button" class="small" onClick={forget}>
            Another company
          </button>
        </p>
      ) : (
        <Field
          label="Company id"
          name="companyId"
          autoComplete="organization"
          value={typed || (linked ?? '')}
          error={error}
          hint={
            <>
              It is in your mails. <Link to="/companies">Which company?</Link>
            </>
          }
        />
      ),
  }
}
