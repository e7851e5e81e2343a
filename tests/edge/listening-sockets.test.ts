import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { listenOnMoreSockets } from '../../src/edge/listening-sockets.ts'

const COUNT = 200

const onLinux = test.runIf(process.platform === 'linux')
onLinux('concurrent connections are accepted many at a time, up to a limit', async () => {
  const server = createServer((_request, response) => response.end('hello'))
  server.maxConnections = COUNT
  server.listen({ host: '127.0.0.1', port: 0, reusePort: true })
  await once(server, 'listening')
  const closeMore = await listenOnMoreSockets(server)
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('a port has an address')

  let accepted = 0
  server.on('connection', () => {
    accepted += 1
  })
  const open = () => connect({ host: '127.0.0.1', port: address.port })
  const sockets = Array.from({ length: COUNT }, open)
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  let turns = 0
  while (accepted < COUNT) {
    const before = accepted
    await nextTurn()
    if (accepted > before) turns += 1
  }
  expect(turns).toBeLessThan(COUNT / 2)

  const answers = sockets.map(async (socket) => {
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    const [answer] = await once(socket, 'data')
    return String(answer)
  })
  expect((await Promise.all(answers)).filter((answer) => answer.endsWith('hello'))).toHaveLength(COUNT)

  // Each socket can have fewer, and all together have as many as one alone could.
  const [closed] = await once(open().resume(), 'close')
  expect(closed).toBe(false)

  const ended = [closeMore(), once(server.close(), 'close')]
  server.closeIdleConnections()
  await Promise.all(ended)
  await expect(fetch(`http://127.0.0.1:${address.port}/`)).rejects.toThrow('fetch failed')
})
