import { expect, inject, test } from 'vitest'
import { ACTIONS } from '../../src/audit/entry.ts'
import { read } from '../architecture/sources.ts'

/** Audit actions in code: in a property, a variable, or an act's `audit`. */
const GIVEN = /\b(?:action: |const action = |audit\()([^,()}\n]+)/g

test('the listed audit actions are exactly those that code writes (ASVS 16.2.1)', async () => {
  const sources = (await read('src')).filter(({ path }) => !/^(?:pages|http)\/|^audit\/actions/.test(path))
  const written = sources.flatMap(({ code }) =>
    [...code.matchAll(GIVEN)].flatMap(([, expression = '']) =>
      // Leaves out actions that are only compared.
      Array.from(expression.replace(/=== '\w+'/g, '').matchAll(/'([a-z_]+)'/g), ([, word]) => word),
    ),
  )
  expect([...new Set(written)].sort()).toEqual(Object.keys(ACTIONS).sort())
})

test('the OpenAPI document lists every audit action (ASVS 2.1.1)', () => {
  const { description } = JSON.parse(inject('openapi').api).info
  for (const [action, says] of Object.entries(ACTIONS))
    expect(description).toContain(`| \`${action}\` | ${says} |`)
})
