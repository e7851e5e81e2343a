import { type ComponentChildren, Fragment } from 'preact'
import { useState } from 'preact/hooks'
import type { Session } from '../routes.ts'
import { Frame } from './frame.tsx'

interface Props {
  /** Who is signed in in this browser. */
  session: Session | null
  /** Whose link it is, as far as that is known. */
  owner?: { company: string | null; email: string } | undefined
  /** The link signs nobody in. */
  keepsSession?: boolean
  children: ComponentChildren
}

/** Asks before a link does anything in a browser in which somebody else is signed in. */
export function OtherAccount({ session, owner, keepsSession = false, children }: Props) {
  const [isAsked, setAsked] = useState(true)
  if (!session || !isAsked || isOf(session, owner)) return <Fragment>{children}</Fragment>
  const { user, accessContext } = session
  return (
    <Frame title="You're signed in already">
      <p>
        This browser is signed in to <strong>{accessContext.companyName}</strong> as{' '}
        <strong>{user.email}</strong>.
      </p>
      <p>
        {owner ? (
          <>
            The link you opened is for <strong>{owner.email}</strong>.
          </>
        ) : (
          'The link you opened may be for another account.'
        )}{' '}
        Nothing has happened yet.
        {!keepsSession && (
          <>
            {' '}
            If you continue and sign in with it, this browser is signed out of{' '}
            <strong>{accessContext.companyName}</strong>.
          </>
        )}
      </p>
      <div class="choices">
        <button type="button" class="primary" onClick={() => setAsked(false)}>
          Continue with the link
        </button>
      </div>
      <p class="links">
        <a href="/">Back to {accessContext.companyName}</a>
      </p>
    </Frame>
  )
}

function isOf({ user, accessContext }: Session, owner: Props['owner']): boolean {
  return (
    owner?.email === user.email && owner.company !== null && owner.company === accessContext.companyHandle
  )
}
