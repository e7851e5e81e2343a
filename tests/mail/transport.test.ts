import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { openTransport } from '../../src/mail/transport.ts'
import { openMailbox } from '../support/mailbox.ts'

/** What a mail server sees of the service and its settings. */

const mailbox = await openMailbox()
let messages = 0

/** Sends a message with these settings, and returns it as it arrives. */
async function send(env: Record<string, string>) {
  const transport = openTransport(loadConfig({ SMTP_URL: mailbox.url, ...env }))
  messages += 1
  const to = `person${messages}@mail.example`
  const content = { subject: 's', text: 't', html: 'h' }
  const message = { id: String(messages), kind: 'password_changed' as const, to, at: new Date(0), ...content }
  await transport.send(message, AbortSignal.timeout(60_000))
  transport.close()
  return await mailbox.mailTo(to)
}

test.for([
  [{ PUBLIC_URL: 'https://auth.example.com:8443' }, 'auth.example.com'],
  [{ PUBLIC_URL: 'https://auth.example.com', SMTP_NAME: 'mail-1.example.com' }, 'mail-1.example.com'],
  [{}, 'localhost'],
] as const)('%o greets the mail server as %s, whatever the name of the machine', async ([env, name]) => {
  expect((await send(env)).clientName).toBe(name)
})

test.for([
  ['Acme: Risk', 'Acme: Risk'],
  ['Acme; Risk', 'Acme; Risk'],
  ['Acme, Inc.', 'Acme, Inc.'],
  ['Acme (Risk)', 'Acme (Risk)'],
  ['Acme "Risk" Team', 'Acme "Risk" Team'],
  ['"Acme: Risk"', 'Acme: Risk'],
  ['"Acme \\"Risk\\""', 'Acme "Risk"'],
  ['Acme @ Work', 'Acme @ Work'],
  ['Zürich: 東京', 'Zürich: 東京'],
  ['', ''],
] as const)('the name in MAIL_FROM "%s <…>" arrives whole', async ([written, name]) => {
  const { email, raw } = await send({ MAIL_FROM: `${written} <gate@mail.example>` })
  expect(email.from).toEqual({ name, address: 'gate@mail.example' })
  expect(email.messageId).toMatch(/@mail\.example>$/)
  expect(raw.match(/^From:/gim)).toHaveLength(1)
})

test('MAIL_FROM can be an address without a name', async () => {
  const { email } = await send({ MAIL_FROM: 'gate@mail.example' })
  expect(email.from).toEqual({ name: '', address: 'gate@mail.example' })
})
