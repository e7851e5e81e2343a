import { useState } from 'preact/hooks'
import { EMAIL, Field, Form, TAKES_FOCUS } from '../form.tsx'
import type { Company } from '../remembered.ts'
import type { Body } from '../routes.ts'
import { useCompany } from './company-field.tsx'

export type Credentials = Body<'POST /auth/login'>

interface Props {
  /** From a link that was just opened. */
  company: Company | null
  /** Restores what the user typed before. */
  typed: { company: string; email: string }
  /** Applies to passkey sign-ins too. */
  isRemembered: boolean
  onRemember: (isRemembered: boolean) => void
  /** The passkey comes first. */
  isSecond: boolean
  give: (credentials: Credentials, typed: Props['typed']) => Promise<void>
}

export function PasswordStep({ company: given, typed, isRemembered, onRemember, isSecond, give }: Props) {
  const company = useCompany(given, { typed: typed.company })
  // Focus the first field that is not filled in.
  const [first] = useState(() => {
    if (isSecond || company.isMissing || !TAKES_FOCUS) return null
    return typed.email ? 'password' : 'email'
  })
  return (
    <Form
      action="Sign in"
      isSecond={isSecond}
      onSubmit={(values) => {
        const email = values.email.trim()
        const credentials = { ...company.read(values), email, password: values.password }
        return give(credentials, { company: values.company, email })
      }}
    >
      {company.field(!isSecond)}
      <Field
        {...EMAIL}
        // The browser offers passkeys here, too.
        autoComplete="username webauthn"
        value={typed.email}
        hasFocus={first === 'email'}
      />
      <Field
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        hasFocus={first === 'password'}
      />
      {!company.known && (
        <label class="check">
          <input
            type="checkbox"
            checked={isRemembered}
            onChange={({ currentTarget }) => onRemember(currentTarget.checked)}
          />{' '}
          Remember my company on this device
        </label>
      )}
    </Form>
  )
}
