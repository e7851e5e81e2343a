import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Kysely } from 'kysely'
import { findAccountsByEmail } from '../../company/identity-repository.ts'
import type { PasswordHasher } from '../../crypto/password.ts'
import { generatePassword } from '../../crypto/password-policy.ts'
import type { Database } from '../../database/schema.ts'
import { createCompany } from '../../operator/companies.ts'
import { newId, type System } from '../../system.ts'
import { readOrCreate } from './data-folder.ts'

const DemoCompany = Type.Object({
  companyId: Type.String(),
  email: Type.String(),
  password: Type.String(),
})
interface Demo extends Static<typeof DemoCompany> {
  handle: string | null
  /** False once its admin has changed e-mail or password, or is deleted or disabled. */
  signsIn: boolean
}

/** The data folder has its password; the database has only the hash. */
export async function openDemoCompany(
  dataDir: string,
  context: {
    db: Kysely<Database>
    hasher: PasswordHasher
    system: System
    config: { cell: string | undefined; pagesUrl: string }
  },
): Promise<Demo> {
  const { db, hasher, system } = context
  const text = await readOrCreate(dataDir, 'demo-company.json', system.randomBytes, () =>
    JSON.stringify({
      companyId: newId(system),
      email: 'admin@demo.example',
      password: generatePassword(system.randomBytes),
    }),
  )
  const demo = Value.Parse(DemoCompany, JSON.parse(text))
  const { companyId, email: adminEmail, password } = demo
  const company = { companyId, name: 'Demo Company', adminEmail, adminName: 'Demo Admin', password }
  const { handle } = await createCompany(context, company)
  const [account] = await findAccountsByEmail(db, [{ companyId, email: adminEmail }])
  const isSame = await hasher.verify(account?.passwordHash, password)
  return { ...demo, handle, signsIn: isSame && account?.userStatus === 'active' }
}

export function welcome(listening: string, { companyId, handle, email, password, signsIn }: Demo): string {
  const company = handle ?? companyId
  // Browsers create no passkeys for an IP address, and [::] is none that a link can lead to.
  const url = listening.replace(/\/\/(?:127\.0\.0\.1|\[::1?\]):/, '//localhost:')
  const listens = `gatehouse listens at ${url}/api, with a Postgres of its own.`
  if (!signsIn)
    return `
${listens}

The admin of the demo company has another e-mail or password by now. Sign in with these at:

  ${url}/sign-in#company=${company}

To begin anew, stop the service, delete its data folder (DATA_DIR, or .data), and start it again.
`
  return `
${listens}

  company   ${company}
  e-mail    ${email}
  password  ${password}

For the walk in the README:

  export BASE=${url}/api COMPANY=${company} EMAIL=${email} PASSWORD=${password}

Sign in with this password at:

  ${url}/sign-in#company=${company}&email=${encodeURIComponent(email)}
`
}
