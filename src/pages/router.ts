import { useEffect, useState } from 'preact/hooks'

/** Paths of the application, without reloading the page. */

const CHANGED = 'gatehouse:path'

export function navigate(path: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, '', path)
  else history.pushState(null, '', path)
  dispatchEvent(new Event(CHANGED))
}

export function usePath(): string {
  const [path, setPath] = useState(location.pathname)
  useEffect(() => {
    const update = () => setPath(location.pathname)
    addEventListener('popstate', update)
    addEventListener(CHANGED, update)
    return () => {
      removeEventListener('popstate', update)
      removeEventListener(CHANGED, update)
    }
  }, [])
  return path
}

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
  const values = new URLSearchParams(location.hash.slice(1))
  if (location.hash) history.replaceState(null, '', location.pathname + location.search)
  return values
}
