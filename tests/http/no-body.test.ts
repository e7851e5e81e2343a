import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { useSharedService } from '../support/test-service.ts'
import { exchange } from './raw.ts'

/** Every route of the public listener that needs no body: it takes none, or an optional one. */
const routes: { method: string; path: string; isOptional: boolean }[] = []

function listRoutes(message: unknown): void {
  const { fastify: app } = message as { fastify: FastifyInstance }
  app.addHook('onRoute', ({ method, url, schema }) => {
    const { anyOf } = (schema?.body ?? {}) as { anyOf?: { type?: string }[] }
    const isOptional = anyOf?.some(({ type }) => type === 'null') ?? false
    if (!url.startsWith('/api/') || !schema || (schema.body !== undefined && !isOptional)) return
    const path = url.replace(/:\w+/g, '01890a5d-ac96-774b-bcce-b302099a8057')
    for (const one of [method].flat()) routes.push({ method: one, path, isOptional })
  })
}

subscribe('fastify.initialization', listRoutes)
const { service } = await useSharedService()
unsubscribe('fastify.initialization', listRoutes)
const admin = await service.addCompany()

expect(routes).toContainEqual({ method: 'POST', path: '/api/auth/logout', isOptional: false })
expect(routes).toContainEqual({ method: 'HEAD', path: '/api/auth/session', isOptional: false })
expect(routes).toContainEqual({
  method: 'POST',
  path: '/api/auth/webhook-secret/regenerate',
  isOptional: true,
})
expect(routes.map(({ method }) => method)).toContain('DELETE')

/** Sends a request with the rest of its head, and the body. */
async function send({ method, path }: { method: string; path: string }, rest: string) {
  const { accessToken, refreshToken } = await service.loginAs(admin)
  const token = path === '/api/auth/refresh' ? refreshToken : accessToken
  const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n`
  const [answer] = await exchange(service.addresses[0] ?? '', head + rest)
  return answer
}

const length = (type: string, body = '') =>
  `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`

test.for([
  ['an empty form', length('application/x-www-form-urlencoded')],
  ['an empty object', length('application/json', '{}')],
] as const)('every route that needs no body accepts %s', async ([, rest]) => {
  const refused: unknown[] = []
  for (const route of routes) {
    const answer = await send(route, rest)
    // What the route itself says about the request, as that a field is missing, comes after its body.
    const isAboutBody = !answer?.body.includes('"message":"is missing"')
    if (!answer || ([400, 408, 413, 415].includes(answer.status) && isAboutBody))
      refused.push([route, answer])
  }
  expect(refused).toEqual([])
})

test.for([
  ['nothing', '\r\n'],
  ['length 0 without a type', 'Content-Length: 0\r\n\r\n'],
  ['length 0 as JSON', length('application/json')],
  ['length 0 as text', length('text/plain;charset=UTF-8')],
  ['length 0 of an invalid type', length('json, ;')],
  [
    'an empty chunked form',
    'Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['an empty array', length('application/json', '[]')],
  ['null', length('application/json', 'null')],
] as const)('a request without a body can have %s (RFC 9110, section 6.4)', async ([, rest]) => {
  expect((await send({ method: 'GET', path: '/api/auth/session' }, rest))?.status).toBe(200)
  expect((await send({ method: 'POST', path: '/api/auth/logout' }, rest))?.status).toBe(204)
})

test('a route with an optional body refuses an empty array and null', async () => {
  const path = '/api/auth/webhook-secret/regenerate'
  for (const body of ['[]', 'null'])
    expect((await send({ method: 'POST', path }, length('application/json', body)))?.status).toBe(400)
})
