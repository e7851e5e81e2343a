import { expect, test } from 'vitest'
import { exchange } from '../support/raw.ts'
import { useSharedService } from '../support/test-service.ts'
import { operations } from './document.ts'

/** Routes of the public listener that do not require a body. */

const routes = operations
  .filter(({ operation }) => !operation.requestBody?.required)
  .map(({ method, path }) => {
    const target = path.replace(/\{\w+\}/g, '01890a5d-ac96-774b-bcce-b302099a8057')
    return { method, path: `/api${target}` }
  })

const { service } = await useSharedService()
const admin = await service.addCompany()
const reader = await service.loginAs(await service.addCompany())

/** Sends a request. Writes use their own session, because they can end it. */
async function send({ method, path }: { method: string; path: string }, rest: string) {
  const isReading = method === 'GET' || method === 'HEAD'
  const { accessToken, refreshToken } = isReading ? reader : await service.loginAs(admin)
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
  expect(routes.length).toBeGreaterThan(20)
  for (const route of routes) {
    const answer = await send(route, rest)
    // Errors about the contents, such as a missing field, mean that the body was accepted.
    const isAboutBody = !answer?.body.includes('"message":"is missing"')
    if (!answer || ([400, 408, 413, 415].includes(answer.status) && isAboutBody))
      refused.push([route, answer])
  }
  expect(refused).toEqual([])
})

test.for([
  ['nothing', '\r\n'],
  ['length 0 of an invalid type', length('json, ;')],
  [
    'an empty chunked form',
    'Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['an empty array', length('application/json', '[]')],
  ['null', length('application/json', 'null')],
] as const)('a request without a body can have %s (RFC 9110, section 6.4)', async ([, rest]) => {
  expect((await send({ method: 'GET', path: '/api/auth/session' }, rest))?.status).toBe(200)
  expect((await send({ method: 'HEAD', path: '/api/auth/session' }, rest))?.status).toBe(200)
  expect((await send({ method: 'POST', path: '/api/auth/logout' }, rest))?.status).toBe(204)
})
