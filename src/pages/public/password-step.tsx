import { useState } from 'preact/hooks'
import { EMAIL, Field, Form, TAKES_FOCUS } from '../form.tsx'
import type { Body } from '../routes.ts'
import type { useCompany } from './company-field.tsx'

export type Credentials = Body<'POST /auth/login'>

interface Props {
  company: ReturnType<typeof useCompany>
  /** Restores what the user typed before. */
  email: string
  /** Applies to passkey sign-ins too. */
  isRemembered: boolean
  onRemember: (isRemembered: boolean) => void
  /** The passkey comes first. */
  isSecond: boolean
  give: (credentials: Credentials) => Promise<void>
}

export function PasswordStep({ company, email, isRemembered, onRemember, isSecond, give }: Props) {
  // Focus the first field that is not filled in.
  const [first] = useState(() => {
    if (isSecond || company.isMissing || !TAKES_FOCUS) return null
    return email ? 'password' : 'email'
  })
  return (
    <Form
      action="Sign in"
      isSecond={isSecond}
      onSubmit={(values) =>
        give({ ...company.read(values), email: values.email.trim(), password: values.password })
      }
    >
      {company.field(!isSecond)}
      <Field
        {...EMAIL}
        // The browser offers passkeys here, too.
        autoComplete="username webauthn"
        value={email}
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
