import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Connections } from './connections.ts'

/**
 * Bounds the requests of one connection that are received and not answered. Node's parser emits all requests
 * of a pipeline at once, so one write of a client could otherwise start thousands of them.
 */

const MAX_OUTSTANDING = 8

/** Passes requests on, and closes a connection at the first request beyond the bound. */
export function boundPipelining(handle: RequestListener, connections: Connections): RequestListener {
  const outstanding = new WeakMap<Socket, number>()

  function add(socket: Socket, count: 1 | -1): void {
    const before = outstanding.get(socket) ?? 0
    outstanding.set(socket, before + count)
    if (before === 0) connections.note(socket, 'busy')
    else if (before + count === 0) connections.note(socket, 'idle')
  }

  return (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    if ((outstanding.get(socket) ?? 0) >= MAX_OUTSTANDING) {
      stopParsing(socket)
      socket.destroy()
      return
    }
    add(socket, 1)
    response.once('close', () => add(socket, -1))
    handle(request, response)
  }
}

/**
 * A closed connection is still parsed to the end of the bytes that were read together, which can be thousands
 * of requests and 50 ms. Node has no public way to stop its parser; -1 from this callback is an error to it.
 * Without the callback (another version of Node), those requests are parsed and not processed.
 */
function stopParsing(socket: Socket): void {
  if (!('parser' in socket)) return
  const { parser } = socket
  if (typeof parser === 'object' && parser !== null && 'onIncoming' in parser) parser.onIncoming = () => -1
}
