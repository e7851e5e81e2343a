import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Session } from '../routes.ts'
import { Frame } from './frame.tsx'

interface Props {
  session: Session | null
  /** The user of the link, if known. */
  owner?: { company: string | null; email: string } | undefined
  children: ComponentChildren
}

/** Asks before a link acts in a browser where someone else is signed in. */
export function OtherAccount({ session, owner, children }: Props) {
  const [isAsked, setAsked] = useState(true)
  if (!session || !isAsked) return children
  const { email } = session.user
  const { companyName, companyHandle } = session.accessContext
  if (companyHandle !== null && owner?.company === companyHandle && owner.email === email) return children
  return (
    <Frame title="You're already signed in" links={{ '/': `Back to ${companyName}` }}>
      <p>
        This browser is signed in to <strong>{companyName}</strong> as <strong>{email}</strong>.
      </p>
      <p>
        {owner ? (
          <>
            The link you opened is for <strong>{owner.email}</strong>.
          </>
        ) : (
          'The link you opened may be for a different account.'
        )}{' '}
        Nothing has happened yet. If you continue and sign in, this browser is signed out of{' '}
        <strong>{companyName}</strong>.
      </p>
      <div class="choices">
        <button type="button" class="primary" onClick={() => setAsked(false)}>
          Continue with the link
        </button>
      </div>
    </Frame>
  )
}
