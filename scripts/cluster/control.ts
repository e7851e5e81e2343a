import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { Client } from 'undici'
import { UsageError } from '../kit/command.ts'
import { isListening } from '../kit/places.ts'

/** Commands from other terminals to a running cluster, over a Unix socket that only root can use. */

const SOCKET = '/run/gatehouse-cluster.sock'

type CarryOut = (words: string[]) => Promise<string>

const starting: CarryOut = async () => {
  throw new UsageError('The cluster is still starting.')
}

/** Until the cleanup, no second cluster can start. The returned function sets the handler. @throws UsageError if one runs */
export async function openControl(cleanup: AsyncDisposableStack): Promise<(carryOut: CarryOut) => void> {
  if (await isListening({ path: SOCKET }))
    throw new UsageError('A cluster is already running. Stop it with Ctrl+C first.')
  await rm(SOCKET, { force: true })
  let carryOut = starting
  const server = createServer((request, answer) => {
    const words = decodeURIComponent(request.url ?? '')
      .split('/')
      .filter(Boolean)
    carryOut(words).then(
      (text) => answer.end(text),
      (error: Error) => answer.writeHead(400).end(error.message),
    )
  })
  const before = process.umask(0o077)
  await once(server.listen(SOCKET), 'listening')
  process.umask(before)
  cleanup.defer(() => {
    server.close()
    server.closeAllConnections()
  })
  return (given) => {
    carryOut = given
  }
}

export async function sendCommand(words: string[]): Promise<string> {
  const client = new Client('http://cluster', { socketPath: SOCKET, headersTimeout: 0 })
  try {
    const path = `/${words.map(encodeURIComponent).join('/')}`
    const { statusCode, body } = await client.request({ method: 'POST', path })
    const text = await body.text()
    if (statusCode !== 200) throw new UsageError(text)
    return text
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError('No cluster is running. Start one with `npm run cluster`.')
  } finally {
    await client.close()
  }
}
