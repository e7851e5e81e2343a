import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { copyProject } from './kit/checkout.ts'

/**
 * Measures the tests: breaks a copy of the service in one place at a time, and counts the breaks that the tests of its room
 * find. The breaks depend only on the sources, so two versions of the tests can be compared.
 *
 *     node scripts/mutants.ts [--results FILE] [--only TEXT]
 *
 * FILE stores the result of each break. A new run with the same FILE continues after the last one.
 */

const PROJECT = resolve(import.meta.dirname, '..')
const ACCESS = 'http/access.test.ts'
const MUTANTS_PER_ROOM = 10
/** If the tests hang this long, they have found the break. */
const TIMEOUT_MS = 600_000

const ROOMS: Record<string, { sources: string[]; tests: string[] }> = {
  guards: {
    sources: ['session/credential', 'session/guards'],
    tests: ['session/', 'platform/verify'],
  },
  rotation: { sources: ['session/rotation', 'session/logout', 'session/look-up'], tests: ['session/'] },
  limits: { sources: ['limits/'], tests: ['limits/', 'edge/', 'audit/admission'] },
  ingest: { sources: ['ingest/'], tests: ['ingest/', 'signing-secret/refusals'] },
  'one-time tokens': {
    sources: ['one-time-token/', 'onboarding/'],
    tests: ['onboarding/', 'member/undo', 'member/new-admins'],
  },
  'second factors': { sources: ['second-factor/'], tests: ['second-factor/'] },
  members: { sources: ['member/'], tests: ['member/'] },
  mail: { sources: ['mail/'], tests: ['mail/'] },
  'sign-in': {
    sources: ['sign-in/', 'session/known-clients', 'session/passwords'],
    tests: ['session/', 'onboarding/same-answer', 'member/service'],
  },
}

interface Mutant {
  room: string
  file: string
  start: number
  end: number
  /** The changed line. It names the mutant, so that changes elsewhere in the file do not rename it. */
  line: string
  replacement: string
}

const { values: options } = parseArgs({
  options: {
    results: { type: 'string', default: 'mutants.json' },
    only: { type: 'string', default: '' },
  },
})

const nameOf = ({ room, file, line }: Mutant) => `${room}: ${file}: ${line}`

/** The same number for each room, chosen by the digest of their names. */
async function chooseMutants(): Promise<Mutant[]> {
  const files = (await readdir(join(PROJECT, 'src'), { recursive: true }))
    .filter((name) => name.endsWith('.ts'))
    .sort()
  const chosen: Mutant[] = []
  for (const [room, { sources }] of Object.entries(ROOMS)) {
    const found: Mutant[] = []
    for (const file of files.filter((name) => sources.some((source) => name.startsWith(source)))) {
      const text = await readFile(join(PROJECT, 'src', file), 'utf8')
      found.push(...mutantsIn(file, text).map((mutant) => ({ room, ...mutant })))
    }
    const digest = (mutant: Mutant) => createHash('sha256').update(nameOf(mutant)).digest('hex')
    // Of repeated lines, only the first one counts.
    const distinct = [...new Map(found.reverse().map((mutant) => [nameOf(mutant), mutant])).values()]
    distinct.sort((one, other) => digest(one).localeCompare(digest(other)))
    chosen.push(...distinct.slice(0, MUTANTS_PER_ROOM))
  }
  return chosen
}

/** Spaces around them exclude types and arrows. SQL has some of them too. */
const OPPOSITE: Record<string, string> = {
  '&&': '||',
  '||': '&&',
  '===': '!==',
  '!==': '===',
  '<': '>=',
  '>': '<=',
  '<=': '>',
  '>=': '<',
}
const OPERATOR = /(?<= )(?:&&|\|\||[!=]==|[<>]=?)(?= )/g
const IF = /\bif \((?=.*\) )/g
const SQL_CONDITION = /\band (?!not exists)[a-z_]+\.[a-z_]+ (?:=|<>|[<>]=?|is|in) [^\n`]*$/gm
const COMMENT = /^\s*(?:\/\*\*|\*|\/\/)/

function mutantsIn(file: string, text: string): Omit<Mutant, 'room'>[] {
  const found: Omit<Mutant, 'room'>[] = []
  let lineStart = 0
  for (const line of text.split('\n')) {
    const start = lineStart
    lineStart += line.length + 1
    if (COMMENT.test(line)) continue
    const add = (at: number, length: number, replacement: string) => {
      const changed = `${line.slice(0, at)}«${replacement}»${line.slice(at + length)}`.trim()
      found.push({ file, start: start + at, end: start + at + length, line: changed, replacement })
    }
    for (const { 0: operator, index } of line.matchAll(OPERATOR))
      add(index, operator.length, OPPOSITE[operator] ?? '')
    for (const { 0: keyword, index } of line.matchAll(IF)) {
      const condition = balanced(line.slice(index + keyword.length))
      if (condition) add(index + keyword.length, condition.length, 'false')
    }
    for (const { 0: condition, index } of line.matchAll(SQL_CONDITION)) {
      if (balanced(`${condition})`) === condition) add(index, condition.length, '')
    }
  }
  return found
}

/** The part before the unmatched closing parenthesis; undefined without one. */
function balanced(text: string): string | undefined {
  let depth = 1
  for (const [index, character] of [...text].entries()) {
    if ('({'.includes(character)) depth += 1
    if (')}'.includes(character)) depth -= 1
    if (depth === 0) return text.slice(0, index)
  }
  return undefined
}

async function isFound(folder: string, room: string): Promise<boolean> {
  const vitest = 'node_modules/vitest/vitest.mjs run --config tests/vitest.config.ts --bail 1'.split(' ')
  const args = [...vitest, ACCESS, ...(ROOMS[room]?.tests ?? [])]
  const child = spawn(process.execPath, args, { cwd: folder, stdio: 'ignore', timeout: TIMEOUT_MS })
  return await new Promise((done) => child.on('exit', (code) => done(code !== 0)))
}

const mutants = (await chooseMutants()).filter((mutant) => nameOf(mutant).includes(options.only))
const before = await readFile(options.results, 'utf8').catch(() => '{}')
const results: Record<string, boolean> = JSON.parse(before)
await using cleanup = new AsyncDisposableStack()
const folder = await copyProject(cleanup)
for (const room of new Set(mutants.map(({ room }) => room))) {
  results[`${room}: as it is`] ??= await isFound(folder, room)
  if (results[`${room}: as it is`]) throw new Error(`The tests of ${room} fail without a mutant.`)
}
for (const mutant of mutants) {
  const name = nameOf(mutant)
  if (results[name] !== undefined) continue
  const path = join(folder, 'src', mutant.file)
  const text = await readFile(path, 'utf8')
  await writeFile(path, text.slice(0, mutant.start) + mutant.replacement + text.slice(mutant.end))
  results[name] = await isFound(folder, mutant.room)
  await writeFile(path, text)
  await writeFile(options.results, JSON.stringify(results, null, 2))
  console.log(results[name] ? 'found   ' : 'SURVIVED', name)
}
const judged = mutants.map((mutant) => results[nameOf(mutant)])
console.log(`${judged.filter(Boolean).length} of ${judged.length} found`)
