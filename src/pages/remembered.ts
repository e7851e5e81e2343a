/** Kept in this browser: the company, and marks for a sign-in (the time of its last use) and a passkey. None of it is secret. */

/** Identified by its id, or else by its handle. */
export interface Company {
  id?: string | undefined
  handle?: string | null | undefined
  name: string
}

const COMPANY = 'gatehouse.company'

type Kind = 'localStorage' | 'sessionStorage'

function read(key: string, kind: Kind = 'localStorage'): string | null {
  try {
    return globalThis[kind].getItem(key)
  } catch {
    // Storage is blocked: assume that marks are set.
    return ''
  }
}

function write(key: string, value: string | null, kind: Kind = 'localStorage'): void {
  try {
    if (value === null) globalThis[kind].removeItem(key)
    else globalThis[kind].setItem(key, value)
  } catch {
    // Storage is blocked: the user enters it again.
  }
}

export function readCompany(): Company | null {
  try {
    const { id, handle, name }: Partial<Record<keyof Company, unknown>> = JSON.parse(read(COMPANY) ?? 'null')
    if (typeof id !== 'string' || typeof name !== 'string') return null
    return { id, handle: typeof handle === 'string' ? handle : null, name }
  } catch {
    // Absent, or written by something else.
    return null
  }
}

export function rememberCompany(company: (Company & { id: string }) | null): void {
  write(COMPANY, company && JSON.stringify(company))
}

/** Marks grant no access. Without the sign-in mark, the pages do not request the session. */
function mark(key: string, kind?: Kind) {
  return {
    isSet: () => read(key, kind) !== null,
    set: (isSet: boolean) => write(key, isSet ? String(Date.now()) : null, kind),
    setAt: () => Number(read(key)) || 0,
  }
}

export const signedInMark = mark('gatehouse.signed-in')
/** This device has a passkey of someone who signs in here. */
export const passkeyMark = mark('gatehouse.passkey')
/** This tab has reloaded a page whose files did not load. */
export const reloadedMark = mark('gatehouse.reloaded', 'sessionStorage')
