import { expect, test } from 'vitest'
import { ACTIONS } from '../../src/audit/entry.ts'
import { read } from '../architecture/sources.ts'
import { openTestService } from '../support/test-service.ts'

/** The words that code gives to entries as their action: in a property, a variable, or an act's `audit`. */
const GIVEN = /\b(?:action: |const action = |audit\()([^,()}\n]+)/g

test('the list of actions is the actions that the code writes (ASVS 16.2.1)', async () => {
  const sources = (await read('src')).filter(({ path }) => !/^(?:pages|http)\/|^audit\/actions/.test(path))
  const written = sources.flatMap(({ code }) =>
    [...code.matchAll(GIVEN)].flatMap(([, expression = '']) =>
      // What is compared is no action.
      Array.from(expression.replace(/=== '\w+'/g, '').matchAll(/'([a-z_]+)'/g), ([, word]) => word),
    ),
  )
  expect([...new Set(written)].sort()).toEqual(Object.keys(ACTIONS).sort())
})

test('the document lists every action (ASVS 2.1.1)', async () => {
  const service = await openTestService()
  const { description } = (await service.call('/openapi.json', { method: 'GET' })).body.info
  for (const [action, says] of Object.entries(ACTIONS))
    expect(description).toContain(`| \`${action}\` | ${says} |`)
})
