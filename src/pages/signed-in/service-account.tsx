import { call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { DialogButton } from './dialog-button.tsx'
import type { Issuing } from './new-passwords.tsx'
import { RoleSelect } from './role-select.tsx'

export function AddServiceAccount({ issuing }: { issuing: Issuing }) {
  return (
    <DialogButton
      title="Add a service account"
      change={issuing.change}
      dialog={(form) => (
        <>
          <p class="lead">For programs that sign in on their own. We show the password only once.</p>
          <Form
            {...form}
            action="Add"
            onSubmit={async ({ name, role }) => {
              const { email, password } = await call('POST /auth/members', { body: { name, role } })
              form.onCancel()
              issuing.show({ name: name.trim(), email, password, previousExpiresAt: null })
            }}
          >
            <Field label="Name" name="name" hasFocus />
            <RoleSelect value="developer" hasAdmin={false} />
          </Form>
        </>
      )}
    >
      Add service account
    </DialogButton>
  )
}
