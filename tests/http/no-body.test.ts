import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { openTestService } from '../support/test-service.ts'
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
const service = await openTestService()
unsubscribe('fastify.initialization', listRoutes)
const admin = await service.addCompany()

/** One that takes no body, and one whose body is optional: the readers of bodies that all others use. */
const READERS = ['/api/auth/logout', '/api/auth/webhook-secret/regenerate']

/** The routes that refuse these last bytes of a request for its body. */
async function refusing(among: typeof routes, rest: string): Promise<unknown[]> {
  const refused: unknown[] = []
  for (const { method, path } of among) {
    const { accessToken, refreshToken } = await service.loginAs(admin)
    const token = path === '/api/auth/refresh' ? refreshToken : accessToken
    const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n`
    const [answer] = await exchange(service.addresses[0] ?? '', head + rest)
    // A missing field is found after the body was read.
    const isAboutBody = !answer?.body.includes('"message":"is missing"')
    if (!answer || ([400, 408, 413, 415].includes(answer.status) && isAboutBody))
      refused.push([method, path, answer])
  }
  return refused
}

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
])('a route without a required body accepts %s (RFC 9110 section 6.4)', async (name, rest) => {
  // Null and [] are lenient forms of no body. Where there can be one, they are a mistake.
  const isLenient = ['an empty array', 'null'].includes(name)
  const among = routes.filter(({ path, isOptional }) => READERS.includes(path) && !(isLenient && isOptional))
  expect(among.length).toBeGreaterThan(0)
  expect(await refusing(among, rest)).toEqual([])
})

test('every route without a required body accepts length 0 as a form (RFC 9110 section 6.4)', async () => {
  expect(await refusing(routes, length('application/x-www-form-urlencoded'))).toEqual([])
  const found = routes.map(({ method, path, isOptional }) => `${method} ${path} ${isOptional}`)
  for (const route of [
    'POST /api/auth/logout false',
    'HEAD /api/auth/session false',
    'POST /api/auth/webhook-secret/regenerate true',
  ])
    expect(found).toContain(route)
  expect(routes.map(({ method }) => method)).toContain('DELETE')
})
