import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Kysely } from 'kysely'
import type { PasswordHasher } from '../crypto/password.ts'
import { generatePassword } from '../crypto/password-policy.ts'
import type { Database } from '../database/schema.ts'
import { createCompany } from '../operator/companies.ts'
import { newId, type System } from '../system.ts'
import { readOrCreate } from './data-folder.ts'

const DemoCompany = Type.Object({
  companyId: Type.String(),
  email: Type.String(),
  password: Type.String(),
})
type DemoCompany = Static<typeof DemoCompany>

/** A company for trying the service. The data folder has its password; the database has only the hash. */
export async function openDemoCompany(
  dataDir: string,
  context: { db: Kysely<Database>; hasher: PasswordHasher; system: System },
): Promise<DemoCompany> {
  const { system } = context
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
  await createCompany(context, company)
  return demo
}

/** The text that the service prints at start, with the name of this machine that PUBLIC_URL has by default. */
export function welcome(listening: string, { companyId, email, password }: DemoCompany): string {
  const url = listening.replace('//127.0.0.1:', '//localhost:')
  return `
gatehouse listens at ${url}/api, with a Postgres of its own.

  company   ${companyId}
  e-mail    ${email}
  password  ${password}

For the walk in the README:

  export BASE=${url}/api COMPANY_ID=${companyId} EMAIL=${email} PASSWORD=${password}

Sign in with this password at:

  ${url}/sign-in#company=${companyId}&email=${encodeURIComponent(email)}
`
}
