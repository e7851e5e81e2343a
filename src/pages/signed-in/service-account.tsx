import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import type { NewPassword } from './new-passwords.tsx'
import { RoleSelect } from './role-select.tsx'

/** Adds a service account. */
export function AddServiceAccount({ onAdded }: { onAdded: (password: NewPassword) => void }) {
  /** The form is empty again after each. */
  const [count, setCount] = useState(0)
  async function add({ name, role }: Values): Promise<void> {
    const { email, password } = await call('POST /auth/members', { body: { name, role } })
    setCount(count + 1)
    onAdded({ name: name.trim(), email, password, previousExpiresAt: null })
  }
  return (
    <Section id="service-account" title="Add a service account">
      <p class="lead">
        For a program of yours that signs in by itself. You get a password for it, which is shown once.
      </p>
      <Form key={count} action="Add service account" onSubmit={add}>
        {(faults) => (
          <>
            <Field label="Name" name="name" error={faults['name']} />
            <RoleSelect value="developer" hasAdmin={false} />
          </>
        )}
      </Form>
    </Section>
  )
}
