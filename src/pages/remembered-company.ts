/** The company that somebody signs in to on this device, if they want it to be remembered. It is no secret. */

const KEY = 'gatehouse.company'

export interface Company {
  id: string
  name: string
}

export function readCompany(): Company | null {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? 'null')
    if (typeof found !== 'object' || found === null || !('id' in found) || !('name' in found)) return null
    return typeof found.id === 'string' && typeof found.name === 'string'
      ? { id: found.id, name: found.name }
      : null
  } catch {
    // The browser keeps nothing, or somebody else wrote it.
    return null
  }
}

export function rememberCompany(company: Company | null): void {
  try {
    if (company) localStorage.setItem(KEY, JSON.stringify(company))
    else localStorage.removeItem(KEY)
  } catch {
    // The browser keeps nothing, so the id is asked for each time.
  }
}
