import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { openTestService } from '../support/test-service.ts'
import { exchange } from './raw.ts'

/** Every route of the public listener that is registered without a schema for a body. */
const routes: { method: string; path: string }[] = []

function listRoutes(message: unknown): void {
  const { fastify: app } = message as { fastify: FastifyInstance }
  app.addHook('onRoute', ({ method, url, schema }) => {
    if (!url.startsWith('/api/') || !schema || schema.body !== undefined) return
    const path = url.replace(/:\w+/g, '01890a5d-ac96-774b-bcce-b302099a8057')
    for (const one of [method].flat()) routes.push({ method: one, path })
  })
}

subscribe('fastify.initialization', listRoutes)
const service = await openTestService()
unsubscribe('fastify.initialization', listRoutes)
const admin = await service.addCompany()

const length = (type: string, body = '') =>
  `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`

test.each([
  ['nothing', '\r\n'],
  ['length 0 without a type', 'Content-Length: 0\r\n\r\n'],
  ['length 0 as JSON', length('application/json')],
  ['length 0 as a form', length('application/x-www-form-urlencoded')],
  ['length 0 as text', length('text/plain;charset=UTF-8')],
  ['length 0 of an invalid type', length('json, ;')],
  [
    'an empty chunked form',
    'Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['an empty object', length('application/json', '{}')],
  ['an empty array', length('application/json', '[]')],
  ['null', length('application/json', 'null')],
])('every route without a body takes %s (RFC 9110, section 6.4)', async (_, rest) => {
  const refused: unknown[] = []
  for (const { method, path } of routes) {
    const { accessToken, refreshToken } = await service.loginAs(admin)
    const token = path === '/api/auth/refresh' ? refreshToken : accessToken
    const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n`
    const [answer] = await exchange(service.addresses[0] ?? '', head + rest)
    // What the route itself says about the request comes after its body.
    if (!answer || [400, 408, 413, 415].includes(answer.status)) refused.push([method, path, answer])
  }
  expect(refused).toEqual([])
  expect(routes).toContainEqual({ method: 'POST', path: '/api/auth/logout' })
  expect(routes).toContainEqual({ method: 'HEAD', path: '/api/auth/session' })
  expect(routes.map(({ method }) => method)).toContain('DELETE')
})
