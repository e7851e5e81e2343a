import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { fragment } from '../router.ts'
import type { Answer } from '../routes.ts'
import { ADMIN } from '../words.ts'
import { Done, Frame } from './frame.tsx'
import { explain, LinkPage, type LinkProps } from './mailed-links.tsx'
import { OtherAccount } from './other-account.tsx'

/** Takes back a first second factor or another email. Whose account it is, the link says, and anybody can write a link: the token decides. */
export function Undo({ session }: LinkProps) {
  const [{ company, email }] = useState({
    company: fragment.get('company') ?? '',
    email: fragment.get('email') ?? '',
  })
  const [undone, setUndone] = useState<Answer<'POST /auth/undo'> | null>(null)
  if (undone !== null)
    return (
      <Frame title="The change is undone">
        <Done>
          <p>
            Everybody is signed out of the account. We've emailed a link to <strong>{undone.email}</strong>:
            choose a new password, one that you use nowhere else.
          </p>
          <Added {...undone.additions} />
          <p>Then tell {ADMIN}, what happened.</p>
        </Done>
      </Frame>
    )
  const use = async (token: string) => {
    const failed = explain(
      token,
      `If somebody else still has your account, tell ${ADMIN}.`,
      `Another member of your company has this email by now. Tell ${ADMIN}.`,
    )
    setUndone(await call('POST /auth/undo', { body: { token } }).catch(failed))
  }
  return (
    <OtherAccount session={session} keepsSession>
      <LinkPage title="Undo a change?" action="Undo the change" use={use}>
        <p>
          Did we email you about a change to your account that you didn't make? Undo it: the account gets its
          former email back, its password and second factors are removed, and everybody is signed out.
        </p>
        {email && (
          <p>
            The link names <strong>{email}</strong>
            {company && (
              <>
                {' '}
                at <strong>{company}</strong>
              </>
            )}
            . We check that when you press the button.
          </p>
        )}
        <p class="quiet">If you made the change, close this page.</p>
      </LinkPage>
    </OtherAccount>
  )
}

/** What the undo does not remove. */
function Added({ members, serviceAccounts, signingSecret }: Answer<'POST /auth/undo'>['additions']) {
  if (members.length === 0 && serviceAccounts.length === 0 && signingSecret === null) return null
  return (
    <>
      <p>Since the change, the account also added the following. It stays until someone removes it:</p>
      <ul>
        {members.map(({ id, name, email, role }) => (
          <li key={id}>
            {name} ({email}), {role}, joined by an invitation of the account
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
