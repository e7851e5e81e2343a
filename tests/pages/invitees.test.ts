import { expect, test } from 'vitest'
import { inviteesIn, toLine } from '../../src/pages/signed-in/invitees.ts'

const ANN_BOB = ['ann@a.example', 'bob@b.example']

test.for([
  ['Outlook with semicolons', '"Roe, Ann" <ann@a.example>; Doe, Bob <bob@b.example>', ANN_BOB],
  ['Outlook with commas', 'Roe, Ann <ann@a.example>, Doe, Bob <bob@b.example>,', ANN_BOB],
  ['Outlook with emails as names', "'ann@a.example' <ann@a.example>; 'bob@b.example'", ANN_BOB],
  ['lines, with addresses on their own', 'Roe, Ann\r\n<ann@a.example>\nDoe, Bob <bob@b.example>', ANN_BOB],
  ['a web page', 'ann@a.example<mailto:ann@a.example> bob@b.example', ANN_BOB],
  [
    'a spreadsheet',
    'ann@a.example\tanalyst\nbob@b.example\tADMIN',
    ['ann@a.example, analyst', 'bob@b.example, admin'],
  ],
  [
    'names and roles',
    'ann@a.example, analyst, Doe, Bob <bob@b.example>, viewer',
    ['ann@a.example, analyst', 'bob@b.example, viewer'],
  ],
  ['names that are roles', 'Admin, Ann <ann@a.example>\nViewer Bob <bob@b.example>', ANN_BOB],
  [
    'duplicates',
    'ann@a.example, admin; Ann@a.example; bob@b.example',
    ['ann@a.example, admin', 'bob@b.example'],
  ],
  ['invalid lines', 'not-an-email, developer\nann@a.example', ['not-an-email, developer', 'ann@a.example']],
] as const)('invitees are found in %s', ([, text, lines]) => {
  expect(inviteesIn(text).map(toLine)).toEqual(lines)
})
