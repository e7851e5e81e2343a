import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import type { Figures } from '../../scripts/flood-test/aims.ts'
import { FLOODS } from '../../scripts/flood-test/floods.ts'
import { openFolder } from '../support/cleanup.ts'
import { startProgram } from '../support/program.ts'

/** Run by hand, because they differ from others only in the number of networks. */
const BY_HAND = ['sign-ins-1', 'sign-ins-1000', 'sign-ins-5000', 'signatures-1', 'mail-100']
const CHOSEN = Object.keys(FLOODS).filter((name) => !BY_HAND.includes(name))

const start = (line: string) =>
  startProgram('flood-test.ts', line.split(' '), { DATABASE_URL: inject('serverUrl') })

test('the service survives each flood, with statuses, rows, and memory in bounds', async () => {
  const json = join(await openFolder(), 'report.json')
  const { code, stdout, stderr } = await start(`--flood ${CHOSEN} --duration 1 --json ${json}`).ended
  expect(stderr).not.toContain('Error')
  const { figures }: { figures: Figures[] } = JSON.parse(await readFile(json, 'utf8'))
  expect(figures.map(({ flood }) => flood)).toEqual(CHOSEN)
  const missed = figures.flatMap(({ flood, findings }) =>
    findings.filter(({ isMet }) => !isMet).map((finding) => ({ flood, ...finding })),
  )
  // Aims that only a slow machine misses matter only when run by hand.
  expect(missed.filter(({ isOfSpeed }) => !isOfSpeed)).toEqual([])
  expect(code).toBe(missed.length > 0 ? 1 : 0)
  const succeeded = figures.flatMap(({ before, during }) =>
    [...before.seen, ...during.seen].filter((seen) => seen.succeeded > 0).map(({ kind }) => kind),
  )
  expect(new Set(succeeded).size).toBe(6)
  const statuses = figures.flatMap(({ attack }) => Object.keys(attack))
  expect(statuses).toEqual(expect.arrayContaining(['202', '401']))
  expect(stdout).toMatch(/^sign-in, known network +\d+\/\d+ .*%/m)
})

test('an unknown flood is refused with an explanation', async () => {
  const { code, stderr } = await start('--flood rain').ended
  expect([code, stderr.split('\n')[0]]).toEqual([1, expect.stringContaining('Unknown flood: rain.')])
})
