/** Whether somebody has signed in with this browser. It opens nothing; without it, the pages do not ask who is signed in. */

const KEY = 'gatehouse.signed-in'

export function isMarked(): boolean {
  try {
    return localStorage.getItem(KEY) !== null
  } catch {
    // The browser keeps nothing, so it is asked for.
    return true
  }
}

export function mark(isSignedIn: boolean): void {
  try {
    if (isSignedIn) localStorage.setItem(KEY, 'yes')
    else localStorage.removeItem(KEY)
  } catch {
    // See above.
  }
}
