import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { openTransport, SendFailure } from '../../src/mail/transport.ts'
import { openMailbox } from '../support/mailbox.ts'

const mailbox = await openMailbox()
let messages = 0

function messageTo(to: string, subject = 's') {
  messages += 1
  const content = { subject, text: 't', html: 'h' }
  return { id: String(messages), kind: 'password_changed' as const, to, at: new Date(0), ...content }
}

/** Sends a message with these settings, and returns it as received. */
async function send(env: Record<string, string>, subject?: string) {
  const transport = openTransport(loadConfig({ SMTP_URL: mailbox.url, ...env }))
  const message = messageTo(`person${messages}@mail.example`, subject)
  await transport.send(message, AbortSignal.timeout(60_000))
  transport.close()
  return await mailbox.mailTo(message.to)
}

test.for([
  ['localhost without PUBLIC_URL', {}, 'localhost'],
  ['the host of PUBLIC_URL', { PUBLIC_URL: 'https://auth.example.com:8443' }, 'auth.example.com'],
  ['SMTP_NAME', { PUBLIC_URL: 'https://a.example', SMTP_NAME: 'mail.a.example' }, 'mail.a.example'],
] as const)('the service introduces itself to the mail server as %s', async ([, env, name]) => {
  expect((await send(env)).clientName).toBe(name)
})

test.for([
  ['Acme, Inc. <gate@mail.example>', 'Acme, Inc.'],
  ['Acme "Risk" Team <gate@mail.example>', 'Acme "Risk" Team'],
  ['"Acme \\"Risk\\"" <gate@mail.example>', 'Acme "Risk"'],
  ['Acme @ Work <gate@mail.example>', 'Acme @ Work'],
  ['Zürich: 東京 <gate@mail.example>', 'Zürich: 東京'],
  [' <gate@mail.example>', ''],
  ['gate@mail.example', ''],
] as const)('the sender MAIL_FROM "%s" arrives as one address', async ([MAIL_FROM, name]) => {
  const { email, raw } = await send({ MAIL_FROM })
  expect(email.from).toEqual({ name, address: 'gate@mail.example' })
  expect(email.messageId).toMatch(/@mail\.example>$/)
  expect(raw.match(/^From:/gim)).toHaveLength(1)
})

test.for([
  '"Eve" <eve@evil.example>; Ada, Bcc: b@evil.example',
  'a\r\nBcc: b@evil.example',
  'علی\u200cرضا & 👨\u200d👩\u200d👧',
])('a subject with %j adds no header and no recipient (ASVS 1.3.11)', async (subject) => {
  const { raw, email, recipients } = await send({}, subject)
  expect([email.to?.length, recipients.length]).toEqual([1, 1])
  expect(email.subject).toBe(subject.replace(/\r\n/, ' '))
  const headers = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ')
  const names = headers.split('\r\n').map((line) => line.slice(0, line.indexOf(':')).toLowerCase())
  const usual = 'auto-submitted,content-type,date,from,message-id,mime-version,subject,to'
  expect(names.toSorted().join()).toBe(usual)
})

test('an attempt fails if the mail server is silent for too long', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = Object(silent.address())
  const transport = openTransport(loadConfig({ SMTP_URL: `smtp://127.0.0.1:${port}` }))
  const time = new AbortController()
  silent.on('connection', () => time.abort())
  await expect(transport.send(messageTo('ada@x.example'), time.signal)).rejects.toThrow(SendFailure)
  transport.close()
  silent.close()
})

test('a production mail server without TLS gets no email', async () => {
  const { mail } = loadConfig({ SMTP_URL: mailbox.url })
  const transport = openTransport({ mail: { ...mail, requireTls: true }, dataDir: '' })
  const sending = transport.send(messageTo('tls@x.example'), AbortSignal.timeout(60_000))
  await expect(sending).rejects.toThrow('ETLS')
  expect(mailbox.mailsTo('tls@x.example')).toEqual([])
  transport.close()
})
