import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Section } from '../parts.tsx'
import type { NewPassword } from './new-passwords.tsx'
import { RoleSelect } from './role-select.tsx'

export function AddServiceAccount({ onAdded }: { onAdded: (password: NewPassword) => void }) {
  /** A new key resets the form. */
  const [count, setCount] = useState(0)
  async function add({ name, role }: Values): Promise<void> {
    const { email, password } = await call('POST /auth/members', { body: { name, role } })
    setCount(count + 1)
    onAdded({ name: name.trim(), email, password, previousExpiresAt: null })
  }
  return (
    <Section id="service-account" title="Add a service account">
      <p class="lead">For programs that sign in on their own. We show the password only once.</p>
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
