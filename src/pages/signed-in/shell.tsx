import type { ComponentChildren } from 'preact'
import { Mark } from '../mark.tsx'
import { SIGNED_IN_PAGES } from '../paths.ts'
import type { Session } from '../routes.ts'

/** What each page gets. */
export interface PageProps {
  session: Session
  /** What the session says was changed: it says so now. */
  onChanged: (changed: Session) => void
  /** What the session's recovery code asks for is done, or dismissed. Undefined where none was used. */
  onRecovered: (() => void) | undefined
}

interface Props {
  session: Session
  path: string
  /** No page can be opened before the policy of the company is met. */
  mustEnroll: boolean
  onSignOut: () => void
  children: ComponentChildren
}

/** What surrounds the pages behind sign-in. */
export function Shell({ session, path, mustEnroll, onSignOut, children }: Props) {
  const { accessContext, user, permissions } = session
  const pages = Object.entries(SIGNED_IN_PAGES).filter(
    ([, { needs }]) => needs === undefined || permissions.includes(needs),
  )
  return (
    <>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <header class="bar">
        <p class="brand">
          <Mark /> gatehouse <span class="company">{accessContext.companyName}</span>
        </p>
        {!mustEnroll && (
          <nav aria-label="Pages">
            <ul>
              {pages.map(([to, { title }]) => (
                <li key={to}>
                  <a href={to} aria-current={to === path ? 'page' : undefined}>
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
        {children}
      </main>
    </>
  )
}
