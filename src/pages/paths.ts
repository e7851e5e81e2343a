/** The paths of all pages, for the application, the navigation (signed-in/pages.tsx), and the service (src/app.ts). */

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

/** In navigation order, with the permission that each needs. */
export const SIGNED_IN_PAGES = {
  '/developer': { title: 'Developer', needs: null },
  '/members': { title: 'Members', needs: 'members:manage' },
  '/activity': { title: 'Activity', needs: 'audit:read' },
  '/company': { title: 'Company', needs: 'members:manage' },
  '/account': { title: 'Account', needs: null },
}

/** These show the sign-in page, or redirect signed-in users to their home page. */
export const HOME_PATHS: readonly string[] = ['/', '/sign-in']

export const PAGE_PATHS: readonly string[] = [...HOME_PATHS, ...PUBLIC_PATHS, ...Object.keys(SIGNED_IN_PAGES)]
