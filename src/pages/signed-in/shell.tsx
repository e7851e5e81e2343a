import type { ComponentChildren } from 'preact'
import type { Session } from '../api.ts'
import { Link } from '../parts.tsx'

const PAGES: [path: string, title: string, needs?: string][] = [
  ['/developer', 'Developer', 'webhook-secret:manage'],
  ['/members', 'Members', 'members:manage'],
  ['/security', 'Security', 'members:manage'],
  ['/activity', 'Activity', 'audit:read'],
  ['/account', 'Account'],
]

interface Props {
  session: Session
  path: string
  /** No page can be opened before the policy of the company is met. */
  isHeld: boolean
  onSignOut: () => void
  children: ComponentChildren
}

/** What surrounds the pages behind sign-in. */
export function Shell({ session, path, isHeld, onSignOut, children }: Props) {
  const { accessContext, user, permissions } = session
  const pages = PAGES.filter(([, , needs]) => needs === undefined || permissions.includes(needs))
  return (
    <>
      <a class="skip" href="#content">
        To the content
      </a>
      <header class="bar">
        <p class="brand">
          gatehouse <span class="company">{accessContext.companyName}</span>
        </p>
        {!isHeld && (
          <nav aria-label="Pages">
            <ul>
              {pages.map(([to, title]) => (
                <li key={to} aria-current={to === path ? 'page' : undefined}>
                  <Link to={to}>{title}</Link>
                </li>
              ))}
            </ul>
          </nav>
        )}
        <p class="who">
          <span class="quiet">{user.email}</span>
          <button type="button" class="small" onClick={onSignOut}>
            Sign out
          </button>
        </p>
      </header>
      <main class="wide" id="content">
        {children}
      </main>
    </>
  )
}
