import { sql } from 'kysely'
import { Secret } from 'otpauth'
import { expect, test } from 'vitest'
import { companySecurity } from '../../src/operator/companies.ts'
import { codeIn } from '../support/mail-code.ts'
import { COOKIE_MODE, codeAt, must, openFactorService } from '../support/second-factors.ts'
import { type Answer, PASSWORD } from '../support/test-service.ts'

/** Secrets must not appear in responses before the password, in a copy of the database, or in the log. */

const service = await openFactorService()
const admin = await service.addCompany()
const { call } = service

/** A response without the fields that differ between any two. */
function seen({ status, headers, body }: Answer) {
  const { date: _, 'x-request-id': __, ratelimit: ___, ...others } = headers
  const { requestId: ____, ...rest } = body
  return JSON.stringify([status, others, rest])
}

test('responses before the password do not reveal second factors (ASVS 6.3.8)', async () => {
  const [plain, byTotp, byPasskey] = [
    await service.addUser(admin),
    await service.personWithTotp(admin),
    await service.personWithPasskey(admin),
  ]
  const answers = []
  for (const headers of [{}, COOKIE_MODE]) {
    for (const person of [plain, byTotp, byPasskey, { ...plain, email: 'nobody@company.example' }])
      answers.push(seen(await service.login({ ...person, password: `not ${PASSWORD}` }, { headers })))
  }
  expect(new Set(answers).size).toBe(1)
  const forgotten = []
  for (const { companyId, email } of [plain, byTotp])
    forgotten.push(seen(await call('/auth/password/forgot', { json: { companyId, email } })))
  expect(new Set(forgotten).size).toBe(1)
})

test('a sealed secret moved to a different member does not open (ASVS 11.3.3, 11.2.5)', async () => {
  const [one, other] = [await service.personWithTotp(admin), await service.personWithTotp(admin)]
  await sql`update second_factors set sealed_secret = one.sealed_secret from second_factors one
    where second_factors.factor_id = ${other.id} and one.factor_id = ${one.id}`.execute(service.db)
  const { challenge } = await service.begin(other)
  const code = codeAt(one.secret, service.clock.now())
  // Someone changed the database, so the log must show it to an operator.
  const { status, body } = await service.complete({ challenge, method: 'totp', code })
  expect([status, body.code]).toEqual([500, 'internal_error'])
  const [recoveryCode] = other.recoveryCodes ?? []
  await must(service.complete({ challenge, method: 'recovery_code', code: recoveryCode }))
})

test('a copy of the database contains no secret, code, or challenge (ASVS 6.5.2)', async () => {
  const person = await service.personWithTotp(admin)
  const { challenge } = await service.begin(person)
  const { token } = person
  const proof = await must(call('/auth/reauthenticate', { token, json: { password: PASSWORD } }))
  const { passkeyOptions } = await must(call('/auth/second-factors/passkeys/options', { token }))
  const code = codeAt(person.secret, service.clock.now())
  const spent = await service.begin(person)
  await must(service.complete({ challenge: spent.challenge, method: 'totp', code }))
  const held = await service.signedIn(admin)
  await companySecurity(service.context, admin.companyId, { secondFactor: 'everyone' })
  await must(call('/auth/second-factors/mail-code', { token: held.token }))
  const mailed = codeIn(await service.mailbox.mailTo(held.email, 'Your code for'))

  const secrets = [
    person.secret,
    challenge,
    proof.challenge,
    passkeyOptions.challenge,
    mailed,
    `${mailed.slice(0, 4)} ${mailed.slice(4)}`,
    ...(person.recoveryCodes ?? []).flatMap((text) => [text, text.replaceAll('-', '')]),
  ]
  const raw = secrets.flatMap((text) => {
    const bytes = [Buffer.from(text), Buffer.from(text, 'base64url')]
    if (/^[A-Z2-7]+$/.test(text)) bytes.push(Buffer.from(Secret.fromBase32(text).bytes))
    return bytes.filter(({ length }) => length >= 8).map((form) => form.toString('hex'))
  })
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE'`.execute(service.db)
  for (const { name } of tables) {
    const all = sql<{ row: string }>`select t::text as row from ${sql.table(name)} t`
    const { rows } = await all.execute(service.db)
    const text = rows.map(({ row }) => row).join('\n')
    const found = secrets.filter((secret) => text.includes(secret))
    // Binary columns are written in hexadecimal.
    expect([name, ...found, ...raw.filter((form) => text.includes(form))]).toEqual([name])
  }
  const log = service.logs.join('')
  for (const secret of [...secrets, `"${code}`]) expect(log.includes(secret)).toBe(false)
})
