import { expect, test } from 'vitest'
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

test('a company registers, and its admin signs in and changes the password', async () => {
  const registered = await service.call('/auth/register', {
    json: { companyName: ' Acme\u0301 ', name: '  Ada\u0301 ', email: 'Ada@Acme.example', password },
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
    `Sign in to Acmé (${companyHandle}):\nhttps://auth.example.com/sign-in#company=${companyHandle}`,
  )
  expect(ready.email.text).not.toContain('We received a request')

  const session = await service.loginAs(ada)
  expect(session).toMatchObject({
    user: { id: userId, email, name: 'Adá', role: 'admin' },
    subscription: { status: 'trialing', plan: 'growth' },
    accessContext: { companyName: 'Acmé' },
  })

  const json = { currentPassword: password, newPassword: NEW_PASSWORD }
  const { accessToken: token } = session
  expect((await service.call('/auth/password/change', { token, json })).status).toBe(204)
  expect((await mailbox.mailTo(email)).email.subject).toContain('password for Acmé was changed')
})
