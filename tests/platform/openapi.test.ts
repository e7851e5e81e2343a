import { expect, test } from 'vitest'
import { addClient, basic, FORM } from '../support/platform.ts'
import { useSharedService } from '../support/test-service.ts'

/** The OpenAPI document of the platform listener. */

const { service } = await useSharedService()
const { body: document } = await service.ask('/openapi.json', { method: 'GET' })

test('the platform document describes its endpoints, without limits or the public API', () => {
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

test('the platform endpoints accept the examples of their document', async () => {
  const authorization = basic(await addClient(service))
  const form = document.paths['/introspect'].post.requestBody.content['application/x-www-form-urlencoded']
  const body = new URLSearchParams(form.example).toString()
  expect((await service.ask('/introspect', { headers: { ...FORM, authorization }, body })).status).toBe(200)

  const parameters: { in: string; name: string; example: string }[] = document.paths['/verify'].get.parameters
  const ofHeaders = parameters.filter((one) => one.in === 'header' && one.name !== 'upgrade')
  const headers = Object.fromEntries(ofHeaders.map(({ name, example }) => [name, example]))
  const { accessToken: token } = await service.loginAs(await service.addCompany())
  expect((await service.ask('/verify', { method: 'GET', token, headers })).status).toBe(200)
})

test('the platform document shows each problem with the status that it has there', () => {
  for (const operations of Object.values<Record<string, { responses: object }>>(document.paths)) {
    for (const { responses } of Object.values(operations)) {
      for (const [status, { content }] of Object.entries(responses)) {
        const examples = content?.['application/problem+json']?.examples ?? {}
        for (const { $ref } of Object.values<{ $ref: string }>(examples)) {
          const { value } = document.components.examples[$ref.split('/').at(-1) ?? '']
          expect(value.status).toBe(Number(status))
        }
      }
    }
  }
})
