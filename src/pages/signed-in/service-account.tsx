import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { Dialog } from '../parts.tsx'
import type { Issuing } from './new-passwords.tsx'
import { RoleSelect } from './role-select.tsx'

export function AddServiceAccount({ issuing }: { issuing: Issuing }) {
  const [isOpen, setOpen] = useState(false)
  const show = (isShown: boolean) => {
    issuing.change.forget()
    setOpen(isShown)
  }
  const close = () => show(false)
  async function add({ name, role }: Values): Promise<void> {
    const { email, password } = await call('POST /auth/members', { body: { name, role } })
    close()
    issuing.show({ name: name.trim(), email, password, previousExpiresAt: null })
  }
  return (
    <>
      <button type="button" onClick={() => show(true)}>
        Add service account
      </button>
      {isOpen && (
        <Dialog title="Add a service account" onClose={close}>
          <p class="lead">For programs that sign in on their own. We show the password only once.</p>
          <Form action="Add" change={issuing.change} onSubmit={add} onCancel={close}>
            <Field label="Name" name="name" hasFocus />
            <RoleSelect value="developer" hasAdmin={false} />
          </Form>
        </Dialog>
      )}
    </>
  )
}
