import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { useLoss } from '../leaving.tsx'
import { Outcome, useChange } from '../outcome.tsx'
import { Copied, Fact, Section, Time } from '../parts.tsx'
import { useReload } from '../queries.tsx'
import type { Answer, Member, Session } from '../routes.ts'
import { DialogButton } from './dialog-button.tsx'
import { RoleSelect } from './role-select.tsx'

type NewPassword = Pick<Member, 'name' | 'email'> & Answer<'POST /auth/members/:id/password'>

export type Issuing = ReturnType<typeof useNewPasswords>

/** Passwords that are shown only once. They stay until the user confirms that they are stored. */
export function useNewPasswords() {
  const reload = useReload()
  const change = useChange()
  const [shown, setShown] = useState<NewPassword[]>([])
  const names = shown.map(({ name }) => name).join(' and ')
  const loss = names && `The password for ${names} is shown only once. Store it first.`
  // Once the request has left, only its response has the password.
  useLoss(change.isBusy ? 'A new password is on its way, and is shown only once. Wait for it.' : loss || null)

  /** Replaces the account's previous password. */
  function show(password: NewPassword): void {
    setShown((all) => [password, ...all.filter(({ email }) => email !== password.email)])
    reload('GET /auth/members')
  }
  const store = (stored: NewPassword) =>
    change.run(async () => {
      setShown((all) => all.filter((one) => one !== stored))
      return `The password for ${stored.name} is no longer shown.`
    })
  return { change, shown, show, store }
}

export function NewPasswords({ session, issuing }: { session: Session; issuing: Issuing }) {
  return (
    <>
      <Outcome of={issuing.change} isOfForm />
      {issuing.shown.map((shown) => (
        <Section
          key={shown.password}
          id={`password-${shown.email}`}
          title={`Password for ${shown.name}`}
          hasFocus
        >
          <div class="fresh secret">
            <p>
              We show this password only once. Store these values in your program's configuration. To sign in,
              it sends them to <code>POST /api/auth/login</code>.
            </p>
            {shown.previousExpiresAt && (
              <p>
                The previous password works until <Time at={shown.previousExpiresAt} />.
              </p>
            )}
            <dl class="facts">
              <Fact name="Company ID">
                <Copied text={session.accessContext.companyId} what="the company ID" />
              </Fact>
              <Fact name="Email">
                <Copied text={shown.email} what="the email" />
              </Fact>
              <Fact name="Password">
                <Copied text={shown.password} what="the password" />
              </Fact>
            </dl>
            <button
              type="button"
              class="primary"
              aria-disabled={issuing.change.isBusy}
              onClick={() => issuing.store(shown)}
            >
              I've stored them
            </button>
          </div>
        </Section>
      ))}
    </>
  )
}

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
