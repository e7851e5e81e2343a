import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { call, type ServiceCredential, type Session } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { CopyButton, Section } from '../parts.tsx'
import { RoleSelect } from './role-select.tsx'

interface Props {
  session: Session
  onAdded: () => void
}

/** Adds a service member. Its password is shown until another one is added, or the page is left. */
export function AddServer({ session, onAdded }: Props) {
  const { companyId } = session.accessContext
  const [added, setAdded] = useState<ServiceCredential | null>(null)
  async function add({ name, role }: Record<string, string>): Promise<void> {
    setAdded(await call<ServiceCredential>('/auth/members', { body: { name, role } }))
    onAdded()
  }
  const facts = added && {
    'Company id': companyId,
    'E-mail': added.email,
    Password: added.password,
  }
  return (
    <Section id="server" title="Add a server">
      <p class="lead">A program of yours that signs in by itself, with tokens. Its password is shown once.</p>
      {facts && (
        <div class="fresh" role="status">
          <dl class="facts">
            {Object.entries(facts).map(([name, value]) => (
              <Fragment key={name}>
                <dt>{name}</dt>
                <dd>
                  <code>{value}</code> <CopyButton text={value} what={`the ${name.toLowerCase()}`} />
                </dd>
              </Fragment>
            ))}
          </dl>
          <p>
            Put them into its configuration now. It signs in by <code>POST /api/auth/login</code>.
          </p>
        </div>
      )}
      <Form key={added?.id} action="Add the server" onSubmit={add}>
        {(fields) => (
          <>
            <Field label="Name" name="name" error={fields['name']} />
            <RoleSelect value="developer" hasAdmin={false} />
          </>
        )}
      </Form>
    </Section>
  )
}
