import { useLoss } from '../leaving.tsx'
import { Copied, Section, Time } from '../parts.tsx'
import type { Session } from '../routes.ts'

/** Of a service account. */
export interface NewPassword {
  name: string
  email: string
  password: string
  /** Until when the one before works; null if it does not. */
  previousExpiresAt: string | null
}

interface Props {
  session: Session
  passwords: NewPassword[]
  onStored: (stored: NewPassword) => void
}

/** Passwords that nobody can see again. They stay, whatever becomes of the list, until they are stored. */
export function NewPasswords({ session, passwords, onStored }: Props) {
  const names = passwords.map(({ name }) => name)
  const loss = `The password for ${names.join(' and that for ')} is shown only once. Store it first.`
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
          This is the only time it is shown. Put these into the configuration of your program, which signs in
          with them by <code>POST /api/auth/login</code>.
        </p>
        {shown.previousExpiresAt && (
          <p>
            The password before it works until <Time at={shown.previousExpiresAt} />.
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
