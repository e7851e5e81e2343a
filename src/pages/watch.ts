/**
 * Reloads the page once if a file fails to load, then shows an error: the network failed, or an instance of a different
 * release has different files. It is one file, so that it does not depend on the files it watches. It runs before anything shows.
 */

import { HOME_PATHS, SIGNED_IN_PAGES } from './paths.ts'
import { reloadedMark, signedInMark } from './remembered.ts'

const isBehindSignIn = [...HOME_PATHS, ...Object.keys(SIGNED_IN_PAGES)].includes(location.pathname)
document.documentElement.classList.toggle('known', isBehindSignIn && signedInMark.isSet())

// Without storage, the mark counts as set, because the page would reload in a loop.
const isSecondTime = reloadedMark.isSet()
let hasFailed = false

// Neither event bubbles, and a file's "load" does not reach the window.
document.addEventListener('error', ({ target }) => isOurs(target) && fail(), { capture: true })
document.addEventListener('load', ({ target }) => begin(target), { capture: true })
// Fires after all files. A failed stylesheet can be reported after the application has started.
addEventListener('load', () => hasFailed || reloadedMark.set(false))

/** Browser extensions add their own files. */
function isOurs(target: EventTarget | null): boolean {
  const isScript = target instanceof HTMLScriptElement
  const url = isScript ? target.src : target instanceof HTMLLinkElement ? target.href : ''
  return url.startsWith(`${location.origin}/assets/`)
}

/** Once its file has loaded, the application has run, unless this browser cannot run it. */
function begin(target: EventTarget | null): void {
  const isApplication = isOurs(target) && target instanceof HTMLScriptElement && target.type === 'module'
  if (isApplication && document.getElementById('app')?.className !== 'begun') fail()
}

function fail(): void {
  if (hasFailed) return
  hasFailed = true
  if (!isSecondTime && navigator.onLine) {
    reloadedMark.set(true)
    location.reload()
  } else if (document.readyState === 'loading') addEventListener('DOMContentLoaded', say)
  else say()
}

function say(): void {
  const text = document.createElement('p')
  text.textContent =
    "This page didn't load completely. Check your connection, then reload the page. If that doesn't help, try again in a few minutes."
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'primary'
  button.textContent = 'Reload the page'
  button.addEventListener('click', () => location.reload())
  const notice = document.createElement('div')
  notice.className = 'card'
  notice.role = 'alert'
  notice.append(text, button)
  for (const one of document.querySelectorAll('.starting')) one.remove()
  document.body.prepend(notice)
}
