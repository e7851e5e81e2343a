import type { onRequestHookHandler } from 'fastify'
import { Problem } from '../errors.ts'

/**
 * Lets a few requests through in each turn of the event loop, in the order of their arrival: a crowd that
 * comes to one route all at once does not hold up the others. More than `maxWaiting` are answered 503
 * `overloaded`: one connection can bring them faster than they pass.
 */
export function createTurnstile(perTurn: number, maxWaiting: number): onRequestHookHandler {
  const waiting: (() => void)[] = []
  function turn(): void {
    for (const pass of waiting.splice(0, perTurn)) pass()
    if (waiting.length > 0) setImmediate(turn)
  }
  return (_request, _reply, done) => {
    if (waiting.length >= maxWaiting) {
      done(new Problem('overloaded', 'Too many requests at once; try again.', { retryAfterSeconds: 1 }))
    } else if (waiting.push(done) === 1) setImmediate(turn)
  }
}
