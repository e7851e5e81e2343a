import { useLocation } from 'preact-iso/router'

/** The query, and the fragments of emailed links. preact-iso handles the paths. */

/** State of a page that the query keeps, so that Back and copied links restore it. */
export function useQuery(): [
  query: Record<string, string>,
  change: (changed: Record<string, string>) => void,
] {
  const { path, query, route } = useLocation()
  return [
    query,
    (changed) => {
      // Keep what a concurrent change has set, and ignore changes from a page that was left.
      if (location.pathname.replace(/(?<=.)\/+$/, '') !== path) return
      const next = new URLSearchParams({
        ...Object.fromEntries(new URLSearchParams(location.search)),
        ...changed,
      })
      for (const [name, value] of [...next]) if (value === '') next.delete(name)
      route(next.size > 0 ? `${path}?${next}` : path, true)
    },
  ]
}

/** These are not secret, so the history entry keeps them for a reload. */
const KEPT = ['company', 'email']

/** The fragment at startup. It can have a secret, so it is removed from the address bar and history immediately. */
export const fragment: URLSearchParams = takeFragment()

// Pasting a link into a tab that already shows its page does not load the page again.
addEventListener('hashchange', () => {
  if (location.hash.includes('=')) location.reload()
})

function takeFragment(): URLSearchParams {
  const values = new URLSearchParams(location.hash.slice(1) || keptIn(history.state))
  const kept = new URLSearchParams([...values].filter(([name]) => KEPT.includes(name)))
  if (location.hash) history.replaceState({ kept: `${kept}` }, '', location.pathname + location.search)
  return values
}

function keptIn(state: unknown): string {
  return typeof state === 'object' && state !== null && 'kept' in state ? String(state.kept) : ''
}
