import { expect, test } from 'vitest'
import { run } from './run.ts'

test('this version serves beside the last release, and goes on with what that has begun', async () => {
  const { code, stdout, stderr } = await run([], { HOME: process.env['HOME'] })
  expect(code, `${stdout}\n${stderr}`).toBe(0)
})
