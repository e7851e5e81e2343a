/**
 * Loads the page once more if a file of it cannot be had, and says so if that does not help: an instance of another release
 * does not have the files of this one, or the network fails. A script without imports, so that it needs none of what it watches.
 */

const RELOADED = 'gatehouse.reloaded'
const storage = openStorage()
// Where nothing is kept, a page would load itself again and again.
const isSecondTime = storage === null || storage.getItem(RELOADED) !== null
let hasFailed = false

function openStorage(): Storage | null {
  try {
    return sessionStorage
  } catch {
    return null
  }
}

// Neither event bubbles, and one of the kind "load" does not reach the window.
document.addEventListener('error', ({ target }) => isOurs(target) && fail(), { capture: true })
document.addEventListener('load', ({ target }) => isApplication(target) && begin(), { capture: true })
// Comes after these, once for all files: a stylesheet that cannot be had may be told after the application has been run.
addEventListener('load', () => hasFailed || storage?.removeItem(RELOADED))

/** Extensions of the browser add files of their own. */
function isOurs(target: EventTarget | null): boolean {
  const isScript = target instanceof HTMLScriptElement
  const url = isScript ? target.src : target instanceof HTMLLinkElement ? target.href : ''
  return url.startsWith(`${location.origin}/assets/`)
}

function isApplication(target: EventTarget | null): boolean {
  return isOurs(target) && target instanceof HTMLScriptElement && target.type === 'module'
}

/** The application has been run, and has shown something unless it does not run here. */
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
    'This page could not be loaded completely. Check your connection, then reload the page. If that does not help, try again in a few minutes.'
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
