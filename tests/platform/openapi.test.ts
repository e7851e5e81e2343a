import { expect, inject, test } from 'vitest'
import { addClient, basic, FORM } from '../support/platform.ts'
import { useSharedService } from '../support/test-service.ts'

/** The platform listener's OpenAPI document. `support/contract.ts` compares it with every response. */

const document = JSON.parse(inject('openapi').platform)
const { post: introspect } = document.paths['/introspect']
const { get: verify } = document.paths['/verify']
const { get: events } = document.paths['/events']

test("the platform's OpenAPI document has its endpoints, without limits or public ones", () => {
  expect(Object.keys(document.paths).sort()).toEqual(['/events', '/introspect', '/openapi.json', '/verify'])
  expect(Object.keys(introspect.requestBody.content)).toEqual(['application/x-www-form-urlencoded'])
  expect([introspect.security, events.security]).toEqual([[{ platformClient: [] }], [{ platformClient: [] }]])
  expect(verify.security).toEqual([{ accessToken: [] }, { sessionCookie: [] }])
  expect(Object.keys(verify.responses['200'].headers)).toContain('X-Auth-Permissions')
  expect(JSON.stringify(document)).not.toMatch(/ratelimit|429|x-session-id|webhook/i)
})

test('platform endpoints accept their own examples', async () => {
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
