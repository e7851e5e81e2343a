import { expect, test } from 'vitest'
import { times } from '../support/test-service.ts'
import { contextOf, KINDS, SINCE, write } from './write.ts'

// Email programs turn these into links in plain text: a scheme, a domain of at least two labels, or an email address.
const SEEMS_LINK = /[a-z][a-z+.-]*:\S|[^\s@]+@[^\s@]+|[\p{L}\p{N}-]+[.\u3002\uff0e\uff61][\p{L}\p{N}]/giu

test.for(['www.evil.example/x?y=1', 'evil\u3002example', 'EVIL\uff0eEXAMPLE', 'mailto:eve@evil.example'])(
  "the user's text %s never becomes a link in an email",
  (text) => {
    for (const kind of KINDS) {
      const { subject, text: plain, html, links } = write(kind, contextOf(text))
      const words = `${subject} ${plain}`.replace(/https:\/\/auth\.example\.com\/\S+/g, '')
      expect(words.match(SEEMS_LINK) ?? [], kind).toEqual([])
      expect(html.match(/<a /g) ?? [], kind).toHaveLength(links.length)
    }
  },
)

test("a user's text never becomes markup in an email (ASVS 1.1.2, 1.2.1, 1.3.7)", () => {
  const text = `"><img src=x onerror='alert(1)'>&lt;b&gt;`
  const escaped = '&quot;&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;lt;b&amp;gt;'
  for (const kind of KINDS)
    expect(write(kind, contextOf(text)).html, kind).not.toMatch(/<img|onerror='|&lt;b/)
  expect(write('password_changed', contextOf(text)).html).toContain(`Hello ${escaped},`)
  expect(write('companies', contextOf(text)).html).toContain(`>Sign in to ${escaped} (acme)<`)
})

test('an encoded word in a name is not decoded in a subject (RFC 2047)', () => {
  const { subject } = write('password_reset', contextOf('=?utf-8?q?evil?='))
  expect(subject).toBe('Reset your password for = ?utf-8?q?evil?=')
})

test('an emailed code comes after the words that locked phones show', () => {
  for (const kind of KINDS) {
    const { subject, text } = write(kind, contextOf('Acme'))
    expect(`${subject} ${text}`.slice(0, 140), kind).not.toContain('1234')
  }
})

test.for([
  [0, 'You have no codes left. Create new ones'],
  [1, 'You have 1 left.'],
  [2, 'You have 2 left.'],
] as const)('the email about a recovery code states how many are left: %i', ([codesLeft, words]) => {
  expect(write('recovery_code_used', { ...contextOf('Acme'), codesLeft }).text).toContain(words)
})

test('the email about a new password states how many invitations were withdrawn', () => {
  const textOf = (invitationsWithdrawn: number) =>
    write('password_changed', { ...contextOf('Acme'), invitationsWithdrawn }).text
  expect(textOf(0)).not.toContain('withdrawn')
  expect(textOf(1)).toContain('An invitation you had sent was withdrawn')
  expect(textOf(2)).toContain('2 invitations you had sent were withdrawn')
})

test('the email about a new password names up to 20 added accounts', () => {
  const textOf = (count: number, additionsSince: string | undefined = SINCE) => {
    const members = times(count, (n) => ({ id: '', name: `New${n}`, email: `${n}`, role: 'viewer' }))
    const additions = { members, serviceAccounts: [], signingSecret: null }
    return write('password_changed', { ...contextOf('Acme'), additions, additionsSince }).text
  }
  expect(textOf(0)).not.toContain('added')
  expect(textOf(20)).toContain('Joined by your invitation: New19 (19), viewer')
  expect(textOf(20)).not.toContain('more')
  expect(textOf(21)).toContain('And 1 more: see Members.')
  expect(textOf(21)).not.toContain('New20')
})
