import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'
import { startProgram } from '../support/program.ts'

test('the check fails if a kind of text is above its limit', async () => {
  const root = await openFolder()
  const files = {
    'README.md': 'Sign in at once.',
    'src/app.ts': '// Starts the service.',
    'tests/app.test.ts': "test('the service starts at once', () => {})",
  }
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, file)), { recursive: true })
    await writeFile(join(root, file), text)
  }
  const { ended } = startProgram('words.ts', ['--root', root, '--list', 'README.md'])
  expect(await ended).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/--list "README\.md".*\n.*--list "titles"/),
    stdout: [
      'README.md:1: Sign in at once. [at once → immediately; together]',
      'words  habits  per 1,000  at most  kind',
      '    4       1      250.0        3  README.md',
      '    3       0        0.0        5  comments',
      '    5       1      200.0        5  titles',
      '',
    ].join('\n'),
  })
})
