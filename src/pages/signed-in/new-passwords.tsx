import { useLoss } from '../leaving.tsx'
import { Copied, Section, Time } from '../parts.tsx'
import type { Session } from '../routes.ts'

/** A service account's new password. */
export interface NewPassword {
  name: string
  email: string
  password: string
  /** When the previous password expires; null if it no longer works. */
  previousExpiresAt: string | null
}

interface Props {
  session: Session
  passwords: NewPassword[]
  onStored: (stored: NewPassword) => void
}

/** Passwords that are shown only once. They stay until the user confirms that they are stored. */
export function NewPasswords({ session, passwords, onStored }: Props) {
  const names = passwords.map(({ name }) => name)
  const loss = `The password for ${names.join(' and ')} is shown only once. Store it first.`
  useLoss(names.length > 0 ? loss : null)
  return passwords.map((shown) => (
    <Section
      key={shown.password}
      id={`password-${shown.email}`}
      title={`Password for ${shown.name}`}
      hasFocus
    >
      <div class="fresh secret">
        <p>
          We show this password only once. Store these values in your program's configuration. To sign in, it
          sends them to <code>POST /api/auth/login</code>.
        </p>
        {shown.previousExpiresAt && (
          <p>
            The previous password works until <Time at={shown.previousExpiresAt} />.
          </p>
        )}
        <dl class="facts">
          <dt>Company ID</dt>
          <dd>
            <Copied text={session.accessContext.companyId} what="the company ID" />
          </dd>
          <dt>Email</dt>
          <dd>
            <Copied text={shown.email} what="the email" />
          </dd>
          <dt>Password</dt>
          <dd>
            <Copied text={shown.password} what="the password" />
          </dd>
        </dl>
        <button type="button" class="primary" onClick={() => onStored(shown)}>
          I've stored them
        </button>
      </div>
    </Section>
  ))
}
