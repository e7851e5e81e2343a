import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { openFolder } from '../support/cleanup.ts'
import { startProgram } from '../support/program.ts'

const PROJECT = resolve(import.meta.dirname, '../..')
const LINTER = resolve(PROJECT, 'node_modules/@redocly/cli/bin/cli.js')

test('the documentation is one self-contained page, built without a database (ASVS 2.1.1)', async () => {
  const page = join(await openFolder(), 'page.html')
  const variables = {
    // In production, the service would require more than this.
    NODE_ENV: 'production',
    PUBLIC_URL: 'https://auth.gatehouse.test',
    LIMIT_REFRESH: '17/61',
    ACCESS_TOKEN_TTL_SECONDS: '777',
    SESSION_MAX_AGE_SECONDS: '1111111',
  }
  expect(await startProgram('docs.ts', ['--out', page], variables).ended).toMatchObject({ code: 0 })
  const html = await readFile(page, 'utf8')
  for (const text of [
    '/auth/webhook-secret/regenerate',
    'https://auth.gatehouse.test/api',
    '17 per 61 seconds',
    '777 seconds',
    '1,111,111 seconds after sign-in',
  ])
    expect(html).toContain(text)
  // The page loads nothing, and its policy would not allow it.
  expect(html).toMatch(/<meta http-equiv="Content-Security-Policy" content="default-src 'none';/)
  expect(html).not.toMatch(/<(?:script|img|iframe|link)[^>]*\s(?:src|href)=/)
  const addresses = html.match(/https?:\/\/[a-z\d-]+(?:\.[a-z\d-]+)+/gi) ?? []
  expect([...new Set(addresses)].sort()).toEqual(['http://www.w3.org', 'https://auth.gatehouse.test'])
})

const listeners = ['api', 'platform'] as const
test.for(listeners)('the OpenAPI document of %s passes the linter (ASVS 2.1.1)', async (listener) => {
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
})
