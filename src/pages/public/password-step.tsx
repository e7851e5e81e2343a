import { Field, Form } from '../form.tsx'
import { useCompany } from './company-field.tsx'

interface Typed {
  companyId: string
  email: string
}

interface Props {
  /** What was typed before, for who begins again. */
  typed: Typed
  /** Whether the company is to be remembered, also after a sign-in by passkey. */
  isRemembered: boolean
  onRemember: (isRemembered: boolean) => void
  give: (credentials: Typed & { password: string }) => Promise<void>
}

/** Company, e-mail and password. */
export function PasswordStep({ typed, isRemembered, onRemember, give }: Props) {
  const company = useCompany(typed.companyId)
  return (
    <Form
      action="Sign in"
      onSubmit={({ email = '', password = '', ...values }) =>
        give({ companyId: company.of(values), email: email.trim(), password })
      }
    >
      {(fields) => (
        <>
          {company.field(fields['companyId'])}
          <Field
            label="E-mail"
            name="email"
            type="email"
            // The browser offers passkeys here, too.
            autoComplete="username webauthn"
            value={typed.email}
            error={fields['email']}
          />
          <Field
            label="Password"
            name="password"
            type="password"
            autoComplete="current-password"
            error={fields['password']}
          />
          {!company.isKnown && (
            <label class="check">
              <input
                type="checkbox"
                checked={isRemembered}
                onChange={({ currentTarget }) => onRemember(currentTarget.checked)}
              />{' '}
              Remember the company on this device
            </label>
          )}
        </>
      )}
    </Form>
  )
}
