import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { countWords, findHabits } from './words/habits.ts'
import { textsOf } from './words/texts.ts'

/**
 * Counts turns of phrase that make texts hard to read, by kind of text. Fails if a kind has too many.
 *
 *     npm run words -- [--list KIND] [--root FOLDER]
 *
 * --list prints each finding of a kind.
 */

/** Findings per 1,000 words. Each document is its own kind. */
const LIMIT = 3
const LIMITS: Record<string, number> = { comments: 5, 'test comments': 5, titles: 5 }
const CODE = '{src,scripts,tests}/**/*.{ts,tsx,css,md}'
const FILES = ['{*,.github/*}.md', '.env.example', '.ci/*', 'deploy/*', 'scripts/{start,with-node}', CODE]

const { list, root } = parseArgs({
  options: {
    list: { type: 'string' },
    root: { type: 'string', default: join(import.meta.dirname, '..') },
  },
}).values

const NONE = { words: 0, habits: 0 }
const kinds = new Map<string, typeof NONE>()
for (const file of globSync(FILES, { cwd: root }).sort()) {
  const source = readFileSync(join(root, file), 'utf8')
  for (const [kind, text] of textsOf(file, source)) {
    const { words, habits } = kinds.get(kind) ?? NONE
    const findings = findHabits(text)
    kinds.set(kind, { words: words + countWords(text), habits: habits + findings.length })
    if (kind !== list) continue
    for (const { line, found, use } of findings)
      console.log(`${file}:${line}: ${source.split('\n')[line - 1]?.trim()} [${found} → ${use}]`)
  }
}

console.log('words  habits  per 1,000  at most  kind')
for (const [kind, { words, habits }] of [...kinds].sort()) {
  const [rate, limit] = [(1_000 * habits) / words, LIMITS[kind] ?? LIMIT]
  const cells = [String(words).padStart(5), String(habits).padStart(6), rate.toFixed(1).padStart(9)]
  console.log([...cells, String(limit).padStart(7), kind].join('  '))
  if (rate <= limit) continue
  console.error(`Too many habits. \`npm run words -- --list "${kind}"\` lists them.`)
  process.exitCode = 1
}
