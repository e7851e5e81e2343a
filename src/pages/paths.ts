/** Where the pages are: for the application (app.tsx), the navigation (signed-in/shell.tsx) and the service (app.ts). */

export const PUBLIC_PATHS = [
  '/register',
  '/companies',
  '/forgot-password',
  '/verify-email',
  '/reset-password',
  '/accept-invitation',
  '/confirm-email',
  '/undo',
] as const

interface SignedInPage {
  title: string
  /** The permission without which it shows nothing. */
  needs?: string
}

/** In the order of the navigation. */
const signedIn = {
  '/developer': { title: 'Developer' },
  '/members': { title: 'Members', needs: 'members:manage' },
  '/activity': { title: 'Activity', needs: 'audit:read' },
  '/company': { title: 'Company', needs: 'members:manage' },
  '/account': { title: 'Account' },
} satisfies Record<string, SignedInPage>
export const SIGNED_IN_PAGES: Record<keyof typeof signedIn, SignedInPage> = signedIn

/** They show sign-in, or lead those who are signed in to a page of theirs. */
export const HOME_PATHS: readonly string[] = ['/', '/sign-in']

export const PAGE_PATHS: readonly string[] = [...HOME_PATHS, ...PUBLIC_PATHS, ...Object.keys(SIGNED_IN_PAGES)]
