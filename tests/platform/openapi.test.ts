import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { addClient, basic, FORM } from '../support/platform.ts'
import { type Answer, useSharedService } from '../support/test-service.ts'

/** The OpenAPI document of the platform listener. */

const { service } = await useSharedService()
const { body: document } = await service.ask('/openapi.json', { method: 'GET' })
const authorization = basic(await addClient(service, ['introspect', 'events:read']))
const company = await service.addCompany()
const { accessToken: token } = await service.loginAs(company)

test('is sound and complete in the eyes of a linter', async () => {
  const project = resolve(import.meta.dirname, '../..')
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-openapi-'))
  const file = join(folder, 'openapi.json')
  await writeFile(file, JSON.stringify(document))
  const redocly = resolve(project, 'node_modules/@redocly/cli/bin/cli.js')
  const options = [redocly, 'lint', file, '--extends', 'recommended-strict', '--format', 'json']
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const { stdout } = await promisify(execFile)(process.execPath, options, { cwd: project, env }).catch(
    (failure: { stdout: string }) => failure,
  )
  await rm(folder, { recursive: true })
  expect(JSON.parse(stdout).problems).toEqual([])
})

test('describes the three endpoints, and nothing of limits or the public API', () => {
  expect(Object.keys(document.paths).sort()).toEqual(['/events', '/introspect', '/openapi.json', '/verify'])
  const { introspect, verify, events } = {
    introspect: document.paths['/introspect'].post,
    verify: document.paths['/verify'].get,
    events: document.paths['/events'].get,
  }
  expect(Object.keys(introspect.requestBody.content)).toEqual(['application/x-www-form-urlencoded'])
  expect([introspect.security, events.security]).toEqual([[{ platformClient: [] }], [{ platformClient: [] }]])
  expect(verify.security).toEqual([{ accessToken: [] }, { sessionCookie: [] }])
  expect(Object.keys(verify.responses['200'].headers)).toContain('X-Auth-Permissions')
  expect(JSON.stringify(document)).not.toMatch(/ratelimit|429|x-session-id|webhook/i)
})

describe('has every response that can be provoked, and takes its own examples:', () => {
  const GET = { method: 'GET' }
  const headersOf = (path: string, method: string) => {
    const parameters: { in: string; name: string; example: string }[] =
      document.paths[path][method].parameters
    const ofHeaders = parameters.filter((one) => one.in === 'header')
    return Object.fromEntries(ofHeaders.map(({ name, example }) => [name, example]))
  }
  const form = document.paths['/introspect'].post.requestBody.content['application/x-www-form-urlencoded']
  const { upgrade: _, ...verifyHeaders } = headersOf('/verify', 'get')
  const introspect = (body: string, headers: object = FORM) =>
    service.ask('/introspect', { headers: { ...headers, authorization }, body })
  const rows: [path: string, method: string, status: number, ask: () => Promise<Answer>][] = [
    ['/introspect', 'post', 200, () => introspect(new URLSearchParams(form.example).toString())],
    ['/introspect', 'post', 200, () => introspect(new URLSearchParams({ token }).toString())],
    ['/introspect', 'post', 400, () => introspect('')],
    ['/introspect', 'post', 401, () => service.ask('/introspect', { headers: FORM, body: 'token=x' })],
    ['/introspect', 'post', 413, () => introspect(`token=${'x'.repeat(70_000)}`)],
    ['/introspect', 'post', 415, () => introspect('token=x', {})],
    ['/verify', 'get', 200, () => service.ask('/verify', { ...GET, token, headers: verifyHeaders })],
    ['/verify', 'get', 401, () => service.ask('/verify', GET)],
    ['/verify', 'get', 403, () => service.ask('/verify?x=1', { ...GET, token })],
    ['/verify', 'get', 403, () => service.ask('/verify?permission=x', { ...GET, token })],
    ['/verify', 'get', 403, () => service.ask('/verify?feature=x', { ...GET, token })],
    ['/verify', 'get', 403, () => service.ask('/verify', { ...GET, cookie: 'x' })],
    ['/events', 'get', 200, () => service.ask('/events?limit=1000', { ...GET, headers: { authorization } })],
    ['/events', 'get', 400, () => service.ask('/events?limit=0', { ...GET, headers: { authorization } })],
    ['/events', 'get', 401, () => service.ask('/events', GET)],
  ]

  test.for(rows)('%s %s %i', async ([path, method, expected, ask]) => {
    const { status, body } = await ask()
    expect(status).toBe(expected)
    const described = document.paths[path][method].responses[String(status)]
    if (status >= 400) expect(described.description).toContain(`(\`${body.code}\`)`)
    const examples = Object.values<{ $ref: string }>(
      described.content?.['application/problem+json']?.examples ?? {},
    )
    for (const { $ref } of examples) {
      const { value } = document.components.examples[$ref.split('/').at(-1) ?? '']
      expect(value.status).toBe(status)
    }
  })
})
