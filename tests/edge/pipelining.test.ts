import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { exchange, open } from '../http/raw.ts'
import { openTestService, times } from '../support/test-service.ts'

/** What one connection, and one network, can have in progress at the same time (ASVS 15.1.3). */

const service = await openTestService()
const [address = ''] = service.addresses
const [app] = service.apps
const admin = await service.addCompany()

const HEAD = 'HTTP/1.1\r\nHost: gatehouse.example\r\n'
const KEY_SET = `GET /api/.well-known/jwks.json ${HEAD}\r\n`
const NOTHING = `GET /api/nothing ${HEAD}\r\n`
const logout = (token: string, headers = '') =>
  `POST /api/auth/logout ${HEAD}Authorization: Bearer ${token}\r\nContent-Length: 0\r\n${headers}\r\n`

describe('requests that one connection can have outstanding', () => {
  test('are eight, and all of them are answered', async () => {
    const { accessToken } = await service.loginAs(admin)
    const bytes = KEY_SET.repeat(7) + logout(accessToken, 'Connection: close\r\n')
    const answers = await exchange(address, bytes)
    expect(answers.map(({ status }) => status)).toEqual([...times(7, () => 200), 204])
  })

  test('the ninth ends the connection, and nothing of it is processed', async () => {
    const { accessToken } = await service.loginAs(admin)
    await exchange(address, KEY_SET.repeat(8) + logout(accessToken))
    expect((await service.getSession({ token: accessToken })).status).toBe(200)
  })

  test('do not include those that are answered', async () => {
    const socket = open(address).setEncoding('latin1')
    let answers = 0
    for (const round of [1, 2, 3]) {
      socket.write(NOTHING.repeat(8))
      while (answers < 8 * round) {
        const [text] = await once(socket, 'data')
        answers += String(text).split('HTTP/1.1 404').length - 1
      }
    }
    expect(answers).toBe(24)
    socket.destroy()
  })

  test('thousands in one write are not even parsed', async () => {
    let parsed = 0
    const count = () => {
      parsed += 1
    }
    app?.server.on('request', count)
    await exchange(address, NOTHING.repeat(2_000))
    app?.server.off('request', count)
    expect(parsed).toBe(9)
  })
})

test('while 50 connections pipeline without end, others sign in and use their sessions', async () => {
  let isOver = false
  function flood(): void {
    const socket = open(address).on('close', () => {
      if (!isOver) flood()
    })
    socket.write(NOTHING.repeat(1_000))
    socket.resume()
  }
  times(50, flood)
  try {
    for (const _ of times(5, () => {})) {
      const { accessToken } = await service.loginAs(admin)
      const checks = times(20, () => service.getSession({ token: accessToken }))
      for (const { status } of await Promise.all(checks)) expect(status).toBe(200)
    }
  } finally {
    isOver = true
  }
})
