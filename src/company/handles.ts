import { createHash } from 'node:crypto'
import type { Executor, Tx } from '../database/connect.ts'
import { invalidField } from '../errors.ts'
import { ID, type System } from '../system.ts'
import { claimHandle, findByHandle, findCompanyNames } from './handles-repository.ts'

/** People type handles instead of ids. Handles end in the cell's name, so that a proxy can route by them. */

const MAX_LENGTH = 40
const FORM = /^[a-z][a-z0-9-]{1,38}[a-z0-9]$/
const DIGITS = 4
/** These could pass for the platform or its pages. */
const RESERVED = [
  'about,abuse,account,admin,administrator,api,app,assets,auth,billing,blog,company,contact,demo,dashboard,docs',
  'gatehouse,help,hostmaster,info,legal,login,logout,mail,mailer-daemon,noreply,no-reply,null,official,operator',
  'owner,payment,payments,platform,postmaster,privacy,register,root,sales,security,service,signin,sign-in,signup',
  'sign-up,staff,status,support,system,team,terms,test,trust,undefined,webmaster,www',
].flatMap((line) => line.split(','))

const suffixOf = (cell: string | undefined) => (cell === undefined ? '' : `-${cell}`)

/** Returns the handle in its stored form. @throws Problem invalid_request */
export function checkHandle(text: string, cell: string | undefined): string {
  const handle = text.toLowerCase()
  if (!FORM.test(handle) || ID.test(handle))
    throw invalidField(
      'handle',
      `must have 3 to ${MAX_LENGTH} characters of a-z 0-9 -, start with a letter, and end with a letter or digit`,
    )
  const suffix = suffixOf(cell)
  if (!handle.endsWith(suffix)) throw invalidField('handle', `must end in ${suffix}`)
  if (RESERVED.includes(handle.slice(0, handle.length - suffix.length)))
    throw invalidField('handle', 'must not be a reserved word')
  return handle
}

/** Derives a missing handle from the name. Random digits reveal nothing about other companies. */
export async function giveHandle(
  tx: Tx,
  { system, config: { cell } }: { system: System; config: { cell: string | undefined } },
  companyId: string,
  now: number,
): Promise<string | null> {
  const company = await findCompanyNames(tx, companyId)
  if (!company || company.handle !== null) return company?.handle ?? null
  const suffix = suffixOf(cell)
  const words = wordsOf(company.name)
  for (let digits = DIGITS; ; digits += 1) {
    const number = Array.from(system.randomBytes(digits), (byte) => byte % 10).join('')
    const end = `-${number}${suffix}`
    const handle = `${words.slice(0, MAX_LENGTH - end.length).replace(/-$/, '')}${end}`
    if (await claimHandle(tx, companyId, handle, new Date(now))) return handle
  }
}

/** Letters that NFKD does not decompose. */
const LATIN: Record<string, string> = { ł: 'l', ø: 'o', đ: 'd', ð: 'd', ß: 'ss', æ: 'ae', œ: 'oe', þ: 'th' }

/** Latin letters and digits of a name, starting with a letter. */
function wordsOf(name: string): string {
  const latin = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[łøđðßæœþ]/g, (letter) => LATIN[letter] ?? '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+|-$/g, '')
  return latin === '' ? 'company' : latin
}

export interface NamedCompany {
  companyId?: string | undefined
  company?: string | undefined
}

/** Returns lower case, because ids have several spellings. @throws Problem invalid_request unless one is given */
export function readNamedCompany({
  companyId,
  company,
}: NamedCompany): { companyId: string } | { handle: string } {
  if (companyId !== undefined && company !== undefined)
    throw invalidField('company', 'must not be sent together with "companyId"')
  if (companyId !== undefined)
    return { companyId: isNobodys(companyId) ? nobodysId(companyId) : companyId.toLowerCase() }
  if (company === undefined)
    throw invalidField('companyId', 'is missing', 'Either "companyId" or "company" (the handle) is required.')
  const handle = company.toLowerCase()
  if (ID.test(handle)) throw invalidField('company', 'is an ID, which must be sent as "companyId"')
  return { handle }
}

/**
 * For a handle without a company: an ID that no company can have (RFC 9562, section 5.8), so that limits apply. If callers
 * give one, it becomes a different one: a shared counter would show that no company has the handle.
 */
export function nobodysId(handle: string): string {
  const bytes = createHash('sha256').update(handle).digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

function isNobodys(companyId: string): boolean {
  return companyId[14] === '8'
}

export async function resolveCompany(db: Executor, named: ReturnType<typeof readNamedCompany>) {
  if ('companyId' in named) return named.companyId
  return (await findByHandle(db, named.handle)) ?? nobodysId(named.handle)
}
