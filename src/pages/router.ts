import { useLocation } from 'preact-iso/router'

/** The address bar: preact-iso has the paths; here are queries, and the fragments of mailed links. */

/** What a page keeps in its query, so that Back and a copied address bring it again. */
export function useQuery(): [
  query: Record<string, string>,
  change: (changed: Record<string, string>) => void,
] {
  const { path, query, route } = useLocation()
  return [
    query,
    (changed) => {
      // What another change has set since stays, and another page has a query of its own.
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

/** What is no secret stays with the entry of the history, so that it is there again after a reload. */
const KEPT = ['company', 'email']

/**
 * The values of the fragment when the application started. They are taken out of the address bar and the history at once,
 * since one can be a secret.
 */
export const fragment: URLSearchParams = takeFragment()

// A link that is pasted into a tab which shows its page already loads nothing by itself.
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
