import type { onRequestHookHandler } from 'fastify'

/**
 * Lets a few requests through in each turn of the event loop, in the order of their arrival: a crowd that
 * comes to one route all at once does not hold up the others.
 */
export function createTurnstile(perTurn: number): onRequestHookHandler {
  const waiting: (() => void)[] = []
  function turn(): void {
    for (const pass of waiting.splice(0, perTurn)) pass()
    if (waiting.length > 0) setImmediate(turn)
  }
  return (_request, _reply, done) => {
    if (waiting.push(done) === 1) setImmediate(turn)
  }
}
