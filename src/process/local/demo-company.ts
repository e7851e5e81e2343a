import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { findAccountsByEmail } from '../../company/identity-repository.ts'
import { generatePassword } from '../../crypto/password-policy.ts'
import { createCompany } from '../../operator/companies.ts'
import { newId } from '../../system.ts'
import { readOrCreate } from './data-folder.ts'

const DemoCompany = Type.Object({
  companyId: Type.String(),
  email: Type.String(),
  password: Type.String(),
})
type Demo = Awaited<ReturnType<typeof openDemoCompany>>

/** The data folder has its password. The database has only the hash. */
export async function openDemoCompany(dataDir: string, context: Parameters<typeof createCompany>[0]) {
  const { db, hasher, system } = context
  const text = await readOrCreate(dataDir, 'demo-company.json', () =>
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
  // The admin may have changed email or password, or may be deleted or disabled.
  return { ...demo, handle, signsIn: isSame && account?.userStatus === 'active' }
}

export function welcome(listening: string, { companyId, handle, email, password, signsIn }: Demo): string {
  const company = handle ?? companyId
  // Browsers create no passkeys for IP addresses, and no link can lead to [::].
  const url = listening.replace(/\/\/(?:127\.0\.0\.1|\[::1?\]):/, '//localhost:')
  const listens = `gatehouse listens at ${url}/api, with its own Postgres.`
  if (!signsIn)
    return `
${listens}

The demo admin's email or password has changed, or the account is disabled. Sign in at:

  ${url}/sign-in#company=${company}

To start over, stop the service, delete its data folder (DATA_DIR, or .data), and start it again.
`
  return `
${listens}

  company   ${company}
  email     ${email}
  password  ${password}

Sign in with this password at:

  ${url}/sign-in#company=${company}&email=${encodeURIComponent(email)}

For the API calls in README.md and scripts/walk.sh, paste this line. The guides are at ${url}/docs.

  export BASE=${url}/api COMPANY=${company} EMAIL=${email} PASSWORD=${password}
`
}
