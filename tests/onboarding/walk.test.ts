import { expect, test } from 'vitest'
import { ended } from '../session/state.ts'
import { openMailbox } from '../support/mailbox.ts'
import { NEW_PASSWORD, openTestService, PASSWORD } from '../support/test-service.ts'

const mailbox = await openMailbox()
const service = await openTestService({
  instances: 2,
  env: {
    SMTP_URL: mailbox.url,
    PUBLIC_URL: 'https://auth.example.com',
    MAIL_FROM: 'Gatehouse <gate@example.com>',
  },
})

const email = 'ada@acme.example'
const password = PASSWORD

test('a company registers, and its admin changes and resets the password', async () => {
  const registered = await service.call('/auth/register', {
    json: { companyName: 'Acme', name: 'Ada', email: 'Ada@Acme.example', password },
  })
  expect(registered).toMatchObject({
    status: 201,
    body: { companyId: expect.any(String), userId: expect.any(String), status: 'pending_verification' },
  })
  const { companyId, userId } = registered.body
  const ada = { companyId, email, password }

  // No step can be left out (ASVS 2.3.1).
  expect(await service.login(ada)).toMatchObject({ status: 403, body: { code: 'email_not_verified' } })
  const verification = await mailbox.mailTo(email)
  expect(verification.recipients).toEqual([email])
  const names = new URLSearchParams({ company: companyId, email })
  expect(verification.email.text).toContain(
    `https://auth.example.com/verify-email#token=${verification.token}&${names}\n`,
  )
  expect(verification.token).toMatch(/^verify_[A-Za-z0-9_-]{43}$/)
  const verified = await service.call('/auth/verify-email', { json: { token: verification.token }, at: 1 })
  expect(verified).toMatchObject({ status: 200, body: { companyId, status: 'active' } })
  const { companyHandle } = verified.body
  const ready = await mailbox.mailTo(email, 'Your company is ready')
  expect(ready.email.text).toContain(
    `Acme (${companyHandle}):\nhttps://auth.example.com/sign-in#company=${companyHandle}`,
  )
  expect(ready.email.text).not.toContain('Somebody asked')

  const session = await service.loginAs(ada)
  expect(session).toMatchObject({
    user: { id: userId, email, name: 'Ada', role: 'admin' },
    subscription: { status: 'trialing', plan: 'growth' },
    accessContext: { companyName: 'Acme' },
  })

  // A new password: this session continues, the others do not (ASVS 6.2.2, 6.2.3, 7.4.3).
  const other = await service.loginAs(ada, { at: 1 })
  const changed = await service.call('/auth/password/change', {
    token: session.accessToken,
    json: { currentPassword: password, newPassword: NEW_PASSWORD },
  })
  expect(changed.status).toBe(204)
  expect((await service.getSession({ token: session.accessToken, at: 1 })).status).toBe(200)
  const replaced = await service.getSession({ token: other.accessToken, at: 1 })
  expect(replaced).toMatchObject(ended('password_changed'))
  expect((await mailbox.mailTo(email)).email.subject).toContain('password for Acme was changed')
  expect((await service.login(ada)).status).toBe(401)

  // A forgotten one: all end (ASVS 6.4.3).
  const forgotten = await service.call('/auth/password/forgot', { json: { companyId, email } })
  expect([forgotten.status, forgotten.body]).toEqual([202, {}])
  const { token } = await mailbox.mailTo(email)
  const json = { token, newPassword: password }
  expect((await service.call('/auth/password/reset', { json })).status).toBe(204)
  const reset = await service.getSession({ token: session.accessToken, at: 1 })
  expect(reset).toMatchObject(ended('password_reset'))
  expect((await mailbox.mailTo(email)).email.subject).toContain('password for Acme was changed')
  expect((await service.login(ada, { at: 1 })).status).toBe(200)
})
