import type { ComponentChildren } from 'preact'
import { Mark } from '../mark.tsx'
import { SIGNED_IN_PAGES } from '../paths.ts'
import type { Session } from '../routes.ts'

export interface PageProps {
  session: Session
  onChanged: (changed: Session) => void
  /** The notice about a used recovery code was followed or dismissed. Undefined if none was used. */
  onRecovered: (() => void) | undefined
}

export const mayOpen = ({ needs }: { needs?: string }, { permissions }: Session) =>
  needs === undefined || permissions.includes(needs)

interface Props {
  session: Session
  path: string
  /** Hides the navigation until the company's policy is satisfied. */
  mustEnroll: boolean
  onSignOut: () => void
  children: ComponentChildren
}

export function Shell({ session, path, mustEnroll, onSignOut, children }: Props) {
  const { accessContext, user } = session
  const pages = Object.entries(SIGNED_IN_PAGES).filter(([, page]) => mayOpen(page, session))
  return (
    <>
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
        {children}
      </main>
    </>
  )
}
