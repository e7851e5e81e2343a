import { useLocation } from 'preact-iso/router'

/** The query, and the fragments of emailed links. preact-iso handles the paths. */

/** State of a page that the query keeps, so that Back and copied links restore it. */
export function useQuery() {
  const { path, query, route } = useLocation()
  function change(changed: Record<string, string>): void {
    // Keep what a concurrent change has set, and ignore changes from a page that was left.
    if (location.pathname.replace(/(?<=.)\/+$/, '') !== path) return
    const next = new URLSearchParams(location.search)
    for (const [name, value] of Object.entries(changed)) {
      if (value === '') next.delete(name)
      else next.set(name, value)
    }
    route(next.size > 0 ? `${path}?${next}` : path, true)
  }
  return [query, change] as const
}

/** These are not secret, so the history entry keeps them for a reload. */
const KEPT = ['company', 'email']

/** The fragment at startup. It can have a secret, so it is removed from the address bar and history immediately. */
export const fragment: URLSearchParams = takeFragment()

// Pasting a link into a tab that already shows its page does not load the page again.
addEventListener('hashchange', () => {
  if (/=|%3D/i.test(location.hash)) location.reload()
})

/** Remembers whom a link is for, for other forms and for a reload. */
export function keep(known: { company?: string; email: string }): void {
  for (const [name, value] of Object.entries(known)) fragment.set(name, value)
  history.replaceState(toKeep(fragment), '')
}

function toKeep(values: URLSearchParams) {
  return { kept: `${new URLSearchParams([...values].filter(([name]) => KEPT.includes(name)))}` }
}

/** Mail programs can encode the "#", which makes the fragment a part of the path. They can encode its "=" or add punctuation. */
function takeFragment(): URLSearchParams {
  const [path = '', inPath = ''] = location.pathname.split(/%23(.*)/i)
  const given = location.hash.slice(1) || inPath
  const text = given.includes('=') ? given : (new URLSearchParams(`_=${given}`).get('_') ?? '')
  const { kept = '' }: { kept?: string } = history.state ?? {}
  const values = new URLSearchParams(text || kept)
  for (const name of ['token', 'email']) {
    const value = values.get(name)
    if (value) values.set(name, value.replace(/[^\p{L}\p{N}_-]+$/u, ''))
  }
  if (given) history.replaceState(toKeep(values), '', path + location.search)
  return values
}
