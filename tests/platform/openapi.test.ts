import { expect, inject, test } from 'vitest'
import { addClient, basic, FORM } from '../support/platform.ts'
import { useSharedService } from '../support/test-service.ts'

/** The platform listener's OpenAPI document. Every response is compared with it in `support/contract.ts`. */

const document = JSON.parse(inject('openapi').platform)
const { post: introspect } = document.paths['/introspect']
const { get: verify } = document.paths['/verify']
const { get: events } = document.paths['/events']

test('the platform document describes its endpoints, without limits or the public API', () => {
  expect(Object.keys(document.paths).sort()).toEqual(['/events', '/introspect', '/openapi.json', '/verify'])
  expect(Object.keys(introspect.requestBody.content)).toEqual(['application/x-www-form-urlencoded'])
  expect([introspect.security, events.security]).toEqual([[{ platformClient: [] }], [{ platformClient: [] }]])
  expect(verify.security).toEqual([{ accessToken: [] }, { sessionCookie: [] }])
  expect(Object.keys(verify.responses['200'].headers)).toContain('X-Auth-Permissions')
  expect(JSON.stringify(document)).not.toMatch(/ratelimit|429|x-session-id|webhook/i)
})

test('platform endpoints take their own examples', async () => {
  const { service } = await useSharedService()
  const authorization = basic(await addClient(service, ['introspect']))
  const form = introspect.requestBody.content['application/x-www-form-urlencoded']
  const introspected = await service.ask('/introspect', {
    headers: { ...FORM, authorization },
    body: new URLSearchParams(form.example).toString(),
  })
  expect(introspected.status).toBe(200)
  const parameters: { in: string; name: string; example: string }[] = verify.parameters
  const { upgrade: _, ...headers } = Object.fromEntries(
    parameters.filter((one) => one.in === 'header').map(({ name, example }) => [name, example]),
  )
  const { accessToken: token } = await service.loginAs(await service.addCompany())
  expect((await service.ask('/verify', { method: 'GET', token, headers })).status).toBe(200)
})

test('every problem example has the status of its response', () => {
  for (const path of Object.values<Record<string, typeof verify>>(document.paths)) {
    for (const { responses } of Object.values(path)) {
      for (const [status, { content }] of Object.entries<typeof verify>(responses)) {
        const { examples = {} } = content?.['application/problem+json'] ?? {}
        for (const { $ref } of Object.values<{ $ref: string }>(examples)) {
          const { value } = document.components.examples[$ref.split('/').at(-1) ?? '']
          expect(value.status).toBe(Number(status))
        }
      }
    }
  }
})
