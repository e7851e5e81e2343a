import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import fastify from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createAcceptors } from '../../src/http/acceptors.ts'
import { times } from '../support/test-service.ts'

/** How connections are accepted (ASVS 15.2.2). Elsewhere than on Linux there is one listener, as usual. */

const HOST = '127.0.0.1'
const HELD = 40

async function openApp(port = 0) {
  const app = fastify()
  app.get('/', async () => 'served')
  const held = Promise.withResolvers<string>()
  const begun = Promise.withResolvers<void>()
  let waiting = 0
  app.get('/held', () => {
    waiting += 1
    if (waiting === HELD) begun.resolve()
    return held.promise
  })
  const acceptors = createAcceptors(app)
  app.addHook('preClose', async () => acceptors.stop())
  const url = await acceptors.listen({ host: HOST, port })
  const close = async () => {
    await app.close()
    await acceptors.ended()
  }
  return { app, url, port: Number(new URL(url).port), close, begun, held }
}

describe.runIf(process.platform === 'linux')('a listener', () => {
  test('accepts many connections in one turn of the event loop', async () => {
    const { app, port, close } = await openApp()
    onTestFinished(close)
    let accepted = 0
    let turns = 0
    const { promise, resolve } = Promise.withResolvers<void>()
    const countTurn = () => {
      if (accepted > 0) turns += 1
      if (accepted < 320) setImmediate(countTurn)
      else resolve()
    }
    app.server.on('connection', () => {
      accepted += 1
    })
    const sockets: Socket[] = times(320, () => connect(port, HOST))
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    countTurn()
    await promise
    // One in each turn would be 320.
    expect(turns).toBeLessThan(160)
  })

  test('serves all of them', async () => {
    const { url, close } = await openApp()
    onTestFinished(close)
    const answers = await Promise.all(times(100, () => fetch(url, { headers: { connection: 'close' } })))
    expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(times(100, () => 'served'))
  })

  test('refuses a port at which another one listens', async () => {
    const { port, close } = await openApp()
    onTestFinished(close)
    await expect(openApp(port)).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })

  test('takes nothing new after its end, which waits for the connections it has', async () => {
    const { app, url, port, close, begun, held } = await openApp()
    const answers = times(HELD, () => fetch(`${url}/held`, { headers: { connection: 'close' } }))
    await begun.promise
    let isClosed = false
    const closed = close().then(() => {
      isClosed = true
    })
    while (app.server.listening) await new Promise((resolve) => setImmediate(resolve))
    const late = connect(port, HOST)
    expect((await once(late, 'error'))[0]).toMatchObject({ code: 'ECONNREFUSED' })
    expect(isClosed).toBe(false)
    held.resolve('served')
    for (const answer of await Promise.all(answers)) expect(await answer.text()).toBe('served')
    await closed
  })
})
