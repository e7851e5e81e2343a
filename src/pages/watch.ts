/**
 * Reloads the page once if a file fails to load, then shows an error: the network failed, or an instance of a different
 * release has different files. This script has no imports, so that it does not depend on the files it watches.
 */

const RELOADED = 'gatehouse.reloaded'
const storage = openStorage()
// Without storage, the page would reload in a loop.
const isSecondTime = storage === null || storage.getItem(RELOADED) !== null
let hasFailed = false

function openStorage(): Storage | null {
  try {
    return sessionStorage
  } catch {
    return null
  }
}

// Neither event bubbles, and a file's "load" does not reach the window.
document.addEventListener('error', ({ target }) => isOurs(target) && fail(), { capture: true })
document.addEventListener('load', ({ target }) => isApplication(target) && begin(), { capture: true })
// Fires after all files. A failed stylesheet can be reported after the application has started.
addEventListener('load', () => hasFailed || storage?.removeItem(RELOADED))

/** Browser extensions add their own files. */
function isOurs(target: EventTarget | null): boolean {
  const isScript = target instanceof HTMLScriptElement
  const url = isScript ? target.src : target instanceof HTMLLinkElement ? target.href : ''
  return url.startsWith(`${location.origin}/assets/`)
}

function isApplication(target: EventTarget | null): boolean {
  return isOurs(target) && target instanceof HTMLScriptElement && target.type === 'module'
}

/** The application has run, and has rendered something unless this browser cannot run it. */
function begin(): void {
  document.querySelector('.starting')?.remove()
  if (!document.getElementById('app')?.hasChildNodes()) fail()
}

function fail(): void {
  if (hasFailed) return
  hasFailed = true
  if (isSecondTime || !navigator.onLine) whenParsed(say)
  else reload(storage)
}

function reload(marks: Storage): void {
  marks.setItem(RELOADED, 'yes')
  location.reload()
}

function whenParsed(act: () => void): void {
  if (document.readyState === 'loading') addEventListener('DOMContentLoaded', act)
  else act()
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
  document.querySelector('.starting')?.remove()
  document.body.prepend(notice)
}
