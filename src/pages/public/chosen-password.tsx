import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, NewPassword, TAKES_FOCUS, Username, type Values } from '../form.tsx'
import { Fact, Time } from '../parts.tsx'
import { Waiting } from '../queries.tsx'
import { fragment } from '../router.ts'
import { Frame } from './frame.tsx'
import { type LinkProps, titleOf, token, useLink } from './mailed-links.tsx'
import { OtherAccount } from './other-account.tsx'
import { type Credentials, SignIn, useSignIn } from './sign-in.tsx'

/** Links to reset a password or accept an invitation. The user is then signed in with the new password. */

function useEntry({ onSignedIn }: LinkProps) {
  const { givePassword, secondStep } = useSignIn(onSignedIn)
  const [done, setDone] = useState('')
  const [notice, setNotice] = useState<string | null>(null)
  async function enter(credentials: Credentials, what: string): Promise<void> {
    setDone(what)
    fragment.set('email', credentials.email)
    fragment.set('company', credentials.companyId ?? credentials.company ?? '')
    await givePassword(credentials).catch(() => setNotice(`${what} Sign in.`))
  }
  /** Replaces the page once the password is set. */
  const next =
    secondStep((why) => setNotice(why ?? `${done} Sign in.`), done) ??
    (notice && <SignIn notice={notice} onSignedIn={onSignedIn} />)
  return { enter, next }
}

export function ResetPassword(props: LinkProps) {
  const { failed, loaded, value } = useLink('POST /auth/password/reset/preview', 'Get a new one below.')
  const { enter, next } = useEntry(props)

  if (next) return next
  const links = { '/sign-in': 'Sign in', '/forgot-password': 'Get a new link' }
  if (!value)
    return (
      <Frame title={titleOf(loaded.error, 'Choose a new password')} links={links}>
        <Waiting of={loaded} />
      </Frame>
    )
  const { companyName, companyHandle: company, email } = value
  async function reset({ newPassword: password }: Values): Promise<void> {
    await call('POST /auth/password/reset', { body: { token, newPassword: password } }).catch(failed)
    await enter(
      { ...(company && { company }), email, password },
      'Your password was changed, and you were signed out everywhere else.',
    )
  }
  return (
    <OtherAccount session={props.session} owner={{ company, email }}>
      <Frame title="Choose a new password" links={links}>
        <p>
          For <strong>{email}</strong> at <strong>{companyName}</strong>. We'll sign you out everywhere else
          and withdraw your open invitations. You can send them again from Members.
        </p>
        <Form action="Change password" onSubmit={reset}>
          <Username email={email} />
          <NewPassword label="New password" name="newPassword" hasFocus={TAKES_FOCUS} />
        </Form>
      </Frame>
    </OtherAccount>
  )
}

export function AcceptInvitation(props: LinkProps) {
  const { failed, loaded, value } = useLink(
    'POST /auth/invitations/preview',
    "If you've already joined, sign in. If not, ask the person who invited you to send a new one.",
  )
  const { enter, next } = useEntry(props)

  async function accept({ name, password }: Values): Promise<void> {
    const body = { token, name, password }
    const { companyId, email } = await call('POST /auth/invitations/accept', { body }).catch(failed)
    await enter({ companyId, email, password }, `You joined ${value?.companyName}.`)
  }

  if (next) return next
  if (!value)
    return (
      <Frame title={titleOf(loaded.error, 'Your invitation')} links={{ '/sign-in': 'Sign in' }}>
        <Waiting of={loaded} />
      </Frame>
    )
  return (
    <OtherAccount session={props.session} owner={{ company: null, email: value.email }}>
      <Frame title={`Join ${value.companyName}`}>
        <dl class="facts">
          <Fact name="Email">{value.email}</Fact>
          <Fact name="Role">{value.role}</Fact>
          <Fact name="Expires">
            <Time at={value.expiresAt} />
          </Fact>
        </dl>
        <Form action="Join" onSubmit={accept}>
          <Username email={value.email} />
          <Field label="Your name" name="name" autoComplete="name" hasFocus={TAKES_FOCUS} />
          <NewPassword label="Password" name="password" />
        </Form>
      </Frame>
    </OtherAccount>
  )
}
