import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Form } from '../form.tsx'
import { useChange } from '../outcome.tsx'
import { Fault } from '../queries.tsx'
import { fragment } from '../router.ts'
import type { Answer } from '../routes.ts'
import { ADMIN } from '../words.ts'
import { Frame } from './frame.tsx'
import { DEAD, explain, type LinkProps, NO_LINK, token } from './mailed-links.tsx'
import { OtherAccount } from './other-account.tsx'

/** Undoes a first second factor or a new email. Anyone can write a link that names an account: the token decides. */
export function Undo({ session }: LinkProps) {
  const { company, email } = Object.fromEntries(fragment)
  const change = useChange()
  const [undone, setUndone] = useState<Answer<'POST /auth/undo'> | null>(null)
  if (undone !== null)
    return (
      <Frame title="Change undone">
        <div class="done" role="status">
          <p>
            Everyone is signed out of the account. We've emailed a link to <strong>{undone.email}</strong>.
            Use it to choose a new password that you don't use anywhere else.
          </p>
          <Added {...undone.additions} />
          <p>Then tell {ADMIN} what happened.</p>
        </div>
      </Frame>
    )
  const fault = change.result?.error
  if (fault?.code === DEAD)
    return (
      <Frame title="Link expired" links={{ '/sign-in': 'Sign in' }}>
        <Fault>{fault.message}</Fault>
      </Frame>
    )
  async function undo(): Promise<void> {
    const failed = explain(
      `If someone else still has access to your account, contact ${ADMIN}.`,
      `Someone else in your company already uses this email. Contact ${ADMIN}.`,
    )
    setUndone(await call('POST /auth/undo', { body: { token } }).catch(failed))
  }
  return (
    <OtherAccount session={session}>
      <Frame title="Undo a change to your account" links={{ '/sign-in': 'Sign in' }}>
        {!token && <Fault>{NO_LINK}</Fault>}
        <p>
          Did we email you about a change that you didn't make? Undoing it restores your previous email,
          removes the password and second factors, and signs everyone out.
        </p>
        {email && (
          <p>
            The link names <strong>{email}</strong> at <strong>{company}</strong>. We check this when you
            select the button.
          </p>
        )}
        <p class="quiet">If you made the change, close this page.</p>
        {token && <Form action="Undo the change" onSubmit={undo} change={change} />}
      </Frame>
    </OtherAccount>
  )
}

/** Additions to the company since the change. The undo does not remove them. */
function Added({ members, serviceAccounts, signingSecret }: Answer<'POST /auth/undo'>['additions']) {
  if (members.length === 0 && serviceAccounts.length === 0 && signingSecret === null) return null
  return (
    <>
      <p>Since the change, the account also added the following. It stays until someone removes it:</p>
      <ul>
        {members.map(({ id, name, email, role }) => (
          <li key={id}>
            {name} ({email}), {role}, invited by the account
          </li>
        ))}
        {serviceAccounts.map(({ id, name, email, role }) => (
          <li key={id}>
            Service account {name} ({email}), {role}, with a new password
          </li>
        ))}
        {signingSecret && <li>A new signing secret, version {signingSecret.version}</li>}
      </ul>
    </>
  )
}
