import { expect, test } from 'vitest'
import { findHabits } from '../../scripts/words/habits.ts'
import { textsOf } from '../../scripts/words/texts.ts'

/** The turns of phrase in each kind of text, in order of their lines. */
function foundIn(file: string, ...lines: string[]): Record<string, string[]> {
  const kinds = textsOf(file, lines.join('\n')).map(([kind, text]) => {
    const findings = findHabits(text).sort((one, other) => one.line - other.line)
    return [kind, findings.map(({ line, found }) => `${line}: ${found}`)]
  })
  return Object.fromEntries(kinds)
}

test("the checker reads a document's sentences, but not its code", () => {
  const found = foundIn(
    'deploy/guide.md',
    'What is not live returns 401. Run `at once`.',
    '',
    '    at once',
    '',
    '```',
    'at once',
    '```',
    'A replaced secret is refused at',
    'once.',
  )
  expect(found).toEqual({ 'deploy/guide.md': ['1: What', '8: at once'] })
})

test('the checker counts route descriptions as OpenAPI texts, other strings as messages', () => {
  const found = foundIn(
    'src/session/routes.ts',
    'const route = {',
    "  summary: 'End all sessions at once',",
    `  description: \`The old one, after \${seconds}, is void.\`,`,
    "  name: field(Type.String(), 'A name of its own'),",
    '}',
    `throw new Problem('invalid', \`must be another one than \${name}\`)`,
    "log.info({ at: 'once' }, 'the service answers again')",
  )
  expect(found).toEqual({
    openapi: ['2: at once', '3: void', '4: of its own'],
    messages: ['6: be another', '7: answers'],
  })
})

test('the checker counts the guide as OpenAPI text, and alerts as messages', () => {
  expect(foundIn('src/guide.ts', 'export const GUIDE = `', 'A cookie alone is enough.`')).toEqual({
    openapi: ['2: alone'],
  })
  const alert = [
    '      annotations:',
    '          summary: The database answers nothing.',
    '# Wakes somebody.',
  ]
  expect(foundIn('deploy/alerts.yaml', ...alert)).toEqual({
    messages: ['2: answers'],
    comments: ['3: somebody'],
  })
})

test('the checker counts letters as emails, and JSX with attributes as pages', () => {
  const letter = `const text = ['Somebody gave this address', \`If not, undo it \${when} at once\`]`
  expect(foundIn('src/mail/letters.ts', letter)).toEqual({ emails: ['1: Somebody', '1: at once'] })
  const page = [
    'const page = (',
    '  <p title="Sign out at once">',
    '    Only this session',
    '    goes on.',
    '  </p>)',
  ]
  expect(foundIn('src/pages/page.tsx', ...page)).toEqual({ pages: ['2: at once', '4: goes on'] })
})

test('the checker reads comments as sentences, across lines and without examples', () => {
  const source = [
    '/**',
    ' * Ends the session at',
    ' * once. Example:',
    ' *',
    ' *     at once',
    ' */',
    '// This is',
    '// no proxy.',
    "import 'at once and void'",
  ]
  const expected = ['2: at once', '7: is no']
  expect(foundIn('src/edge/listener.ts', ...source)).toEqual({ comments: expected })
  expect(foundIn('tests/edge/listener.ts', ...source)).toEqual({ 'test comments': expected })
  expect(foundIn('deploy/roles.sql', '-- Tables of its', '-- own.', 'select 1')).toEqual({
    comments: ['1: of its own'],
  })
})

test('the checker reads titles of tests, but not their data and SQL', () => {
  const found = foundIn(
    'tests/session/logout.test.ts',
    "describe('a logout at once', () => {",
    "  test.each(['an old one that is void'])('%s is answered', async () => {",
    "    expect(text).toBe('Somebody asked for this.')",
    '  })',
    '})',
  )
  expect(found).toEqual({ titles: ['1: at once', '2: answered'] })
  const sql = ['const rows = sql`select alone from void at once`', "query('select alone from void')"]
  expect(foundIn('src/session/repository.ts', ...sql)).toEqual({})
})

test('the checker allows sentences of up to 30 words', () => {
  const words = (count: number) => `${Array(count).fill('word').join(' ')}.\n`
  expect(findHabits(words(30) + words(30))).toEqual([])
  expect(findHabits(words(30) + words(31))).toMatchObject([{ name: 'long', line: 2 }])
})
