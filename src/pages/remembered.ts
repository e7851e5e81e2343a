/** What this browser keeps, none of it a secret: the company to sign in to, and whether somebody has signed in, by passkey too. */

/** A company as far as it is known: by its id, else by its handle. */
export interface Company {
  id?: string | undefined
  handle?: string | null | undefined
  name: string
}

const COMPANY = 'gatehouse.company'

function read(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    // The browser keeps nothing: it may be so.
    return ''
  }
}

function write(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key)
    else localStorage.setItem(key, value)
  } catch {
    // It is asked for again.
  }
}

export function readCompany(): Company | null {
  try {
    const found: unknown = JSON.parse(read(COMPANY) ?? 'null')
    if (typeof found !== 'object' || found === null || !('id' in found) || !('name' in found)) return null
    const handle = 'handle' in found && typeof found.handle === 'string' ? found.handle : null
    return typeof found.id === 'string' && typeof found.name === 'string'
      ? { id: found.id, handle, name: found.name }
      : null
  } catch {
    // Somebody else wrote it.
    return null
  }
}

export function rememberCompany(company: (Company & { id: string }) | null): void {
  write(COMPANY, company && JSON.stringify(company))
}

/** A mark opens nothing. Without that of a sign-in, the pages do not ask who is signed in. */
function mark(key: string) {
  return {
    isSet: () => read(key) !== null,
    set: (isSet: boolean) => write(key, isSet ? 'yes' : null),
  }
}

export const signedInMark = mark('gatehouse.signed-in')
/** This device has a passkey of somebody who signs in here. */
export const passkeyMark = mark('gatehouse.passkey')
