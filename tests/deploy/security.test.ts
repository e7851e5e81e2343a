import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { read } from '../architecture/sources.ts'

/** The counts in deploy/security.md are claims to customers, so each met requirement needs evidence. */

const FILE = resolve(import.meta.dirname, '../../deploy/security.md')
const [sections = '', appendix = ''] = (await readFile(FILE, 'utf8')).split(/^## Appendix: .*$/m)
const [summary = '', ...lists] = appendix.split(/^### .*$/m)
const listed = lists.map((list) => [...list.matchAll(/(\d+\.\d+\.\d+)(\/1\b)?/g)])
const idsOf = (text: string) => text.match(/\d+\.\d+\.\d+/g) ?? []

test('each ASVS requirement is listed once, and the counts are right', () => {
  const all = listed.flat()
  const ids = all.map(([, id]) => id)
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([])
  const countsOf = (rows: typeof all) => [rows.length, rows.filter(([, , first]) => first).length]
  const [met, firstMet] = countsOf(listed[0] ?? [])
  const [applicable, first] = countsOf(all)
  expect(summary).toContain(`${met} of ${applicable}** applicable`)
  expect(summary).toContain(`${firstMet} of ${first}** of level 1`)
})

test('each met ASVS requirement is named by a test or a section', async () => {
  const tests = (await read('tests')).filter(({ path }) => path.endsWith('.test.ts'))
  const titles = tests.flatMap(({ code }) => code.match(/ASVS \d+\.\d+\.\d+(?:, \d+\.\d+\.\d+)*/g) ?? [])
  const named = new Set([...titles.flatMap(idsOf), ...idsOf(sections)])
  const met = listed[0]?.map(([, id = '']) => id) ?? []
  expect(met.length).toBeGreaterThan(200)
  expect(met.filter((id) => !named.has(id))).toEqual([])
})
