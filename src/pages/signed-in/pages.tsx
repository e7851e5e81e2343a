import type { ComponentChild } from 'preact'
import { useRef } from 'preact/hooks'
import { useLeaving } from '../leaving.tsx'
import { Title } from '../parts.tsx'
import { SIGNED_IN_PAGES } from '../paths.ts'
import { Fault, Sharing } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { Account } from './account.tsx'
import { Activity } from './activity.tsx'
import { CompanyPage } from './company.tsx'
import { Developer } from './developer.tsx'
import { Enrolment } from './enrolment.tsx'
import { MembersPage } from './members.tsx'
import { ProofDialog } from './proof-steps.tsx'
import { CodesFirst } from './recovery-codes.tsx'
import { mayOpen, type PageProps, Shell } from './shell.tsx'

/** The pages behind sign-in. The browser loads them while the user signs in. */

const PAGES: Record<keyof typeof SIGNED_IN_PAGES, (props: PageProps) => ComponentChild> = {
  '/developer': (props) => <Developer {...props} />,
  '/members': (props) => <MembersPage {...props} />,
  '/activity': (props) => <Activity {...props} />,
  '/company': (props) => <CompanyPage {...props} />,
  '/account': (props) => <Account {...props} />,
}

interface Props extends PageProps {
  path: keyof typeof SIGNED_IN_PAGES
  fault: string | null
  mustEnroll: boolean
  onEnrolled: () => void
  onSignOut: () => void
}

export function SignedIn({ path, fault, mustEnroll, onEnrolled, onSignOut, ...props }: Props) {
  const { session } = props
  const shown = useRef<keyof typeof PAGES | 'enrolment' | 'denied'>(path)
  const { isLosing, dialog } = useLeaving()
  // A change of the role or the policy does not take away what a page shows only once.
  if (!isLosing || shown.current === 'enrolment')
    shown.current = mustEnroll ? 'enrolment' : mayOpen(SIGNED_IN_PAGES[path], session) ? path : 'denied'
  return (
    // The key prevents one session's data from showing in a different one.
    <Sharing key={session.session.id}>
      <Shell session={session} path={path} mustEnroll={mustEnroll} onSignOut={onSignOut}>
        {fault && <Fault>{fault}</Fault>}
        <CodesFirst session={session} path={path}>
          {shown.current === 'enrolment' ? (
            <Enrolment session={session} onDone={onEnrolled} />
          ) : shown.current === 'denied' ? (
            <Denied session={session} />
          ) : (
            PAGES[shown.current](props)
          )}
        </CodesFirst>
        <ProofDialog email={session.user.email} />
        {dialog}
      </Shell>
    </Sharing>
  )
}

function Denied({ session }: { session: Session }) {
  return (
    <>
      <Title>You can't view this page</Title>
      <p class="notice">
        Your role is {session.user.role}. To view this page, ask an admin for a different role.
      </p>
      <p class="links">
        <a href="/account">Go to your account</a>
      </p>
    </>
  )
}
