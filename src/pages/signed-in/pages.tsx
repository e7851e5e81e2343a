import type { ComponentType } from 'preact'
import { useRef } from 'preact/hooks'
import { useLeaving } from '../leaving.tsx'
import { Mark } from '../mark.tsx'
import { Title } from '../parts.tsx'
import { SIGNED_IN_PAGES } from '../paths.ts'
import { Fault, Sharing } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { Account, type PageProps } from './account.tsx'
import { Activity } from './activity.tsx'
import { CompanyPage } from './company.tsx'
import { Developer } from './developer.tsx'
import { Enrolment } from './enrolment.tsx'
import { MembersPage } from './members.tsx'
import { ProofDialog } from './proof-steps.tsx'
import { CodesFirst } from './recovery-codes.tsx'

/** The pages behind sign-in. The browser loads them while the user signs in. */

const PAGES: Record<keyof typeof SIGNED_IN_PAGES, ComponentType<PageProps>> = {
  '/developer': Developer,
  '/members': MembersPage,
  '/activity': Activity,
  '/company': CompanyPage,
  '/account': Account,
}

interface Props extends PageProps {
  path: keyof typeof SIGNED_IN_PAGES
  fault: string | null
  /** Hides the navigation until the company's policy is satisfied. */
  mustEnroll: boolean
  onSignOut: () => void
}

export function SignedIn({ path, fault, mustEnroll, onSignOut, ...props }: Props) {
  const { session } = props
  const { accessContext, permissions, user } = session
  const mayOpen = ({ needs }: { needs: string | null }) => needs === null || permissions.includes(needs)
  const pages = Object.entries(SIGNED_IN_PAGES).filter(([, page]) => mayOpen(page))
  const shown = useRef<ComponentType<PageProps>>(PAGES[path])
  const { isLosing, dialog } = useLeaving()
  // A change of the role or the policy does not take away what a page shows only once.
  if (!isLosing || shown.current === Enrolment)
    shown.current = mustEnroll ? Enrolment : mayOpen(SIGNED_IN_PAGES[path]) ? PAGES[path] : Denied
  const Page = shown.current
  return (
    // The key prevents one session's data from showing in a different one.
    <Sharing key={session.session.id}>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <header class="bar">
        <p class="brand" translate={false}>
          <Mark /> gatehouse <span class="company">{accessContext.companyName}</span>
        </p>
        {!mustEnroll && (
          <nav aria-label="Pages">
            <ul>
              {pages.map(([to, { title }]) => (
                <li key={to}>
                  <a class="tab" href={to} aria-current={to === path ? 'page' : undefined}>
                    {title}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
        )}
        <p class="who">
          <span class="quiet" title={user.email}>
            {user.name}
          </span>
          <button type="button" class="small" onClick={onSignOut}>
            Sign out
          </button>
        </p>
      </header>
      <main class="wide" id="content">
        {fault && <Fault>{fault}</Fault>}
        <CodesFirst session={session} path={path}>
          <Page {...props} />
        </CodesFirst>
        <ProofDialog email={user.email} />
        {dialog}
      </main>
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
