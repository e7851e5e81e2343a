import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Operation } from '../drive/load.ts'
import { openClient, parseReply } from '../http-client.ts'
import { firstMessage, startChild } from '../start-child.ts'
import { type Part, partOf } from './part.ts'

const OkReply = TypeCompiler.Compile(Type.Object({ ok: Type.Literal(true) }))

/** Requests to the smallest Fastify service: what a request costs before the service does anything. */
export async function openSmallestAnswer(
  users: number,
  cleanup: AsyncDisposableStack,
): Promise<{ operations: Operation[]; part: Part }> {
  const child = startChild(join(import.meta.dirname, 'smallest-answer-process.ts'), {}, cleanup)
  const client = openClient(String(await firstMessage(child)), { connections: users })
  cleanup.defer(() => client.close())
  const operation = async () => {
    parseReply(OkReply, await client.request(200, { method: 'GET', path: '/' }))
  }
  const operations = Array.from({ length: users }, () => operation)
  return { operations, part: partOf('smallest answer', { operations, pid: child.process.pid }) }
}
