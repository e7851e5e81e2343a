import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'

const PROJECT = resolve(import.meta.dirname, '../..')
const LINTER = resolve(PROJECT, 'node_modules/@redocly/cli/bin/cli.js')

test.for(['api', 'platform'] as const)(
  'the OpenAPI document of %s passes the linter (ASVS 2.1.1)',
  async (listener) => {
    const file = join(await openFolder(), 'openapi.json')
    await writeFile(file, inject('openapi')[listener])
    const options = [LINTER, 'lint', file, '--extends', 'recommended-strict', '--format', 'json']
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    const { stdout } = await promisify(execFile)(process.execPath, options, { cwd: PROJECT, env }).catch(
      (failure: { stdout: string }) => failure,
    )
    const { totals, problems } = JSON.parse(stdout)
    expect(problems).toEqual([])
    expect(totals).toMatchObject({ errors: 0, warnings: 0 })
  },
)
