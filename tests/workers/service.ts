import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { isListening } from '../../scripts/kit/places.ts'
import { exchange } from '../support/raw.ts'
import type { Running } from '../support/server-process.ts'
import { times } from '../support/test-service.ts'

/** A service with two workers, and what tests can observe of them. */

/** The addresses that its workers have logged. */
export function addressesIn(
  { output }: Running,
  pattern = /"Server listening at ([^"]+)"/g,
): (string | undefined)[] {
  return [...output().matchAll(pattern)].map(([, url]) => url)
}

export function workersOf({ child: { pid } }: Running): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return children === '' ? [] : children.split(' ').map(Number)
}

export function isServed(address: string): Promise<boolean> {
  const { hostname: host, port } = new URL(address)
  return isListening({ host, port: Number(port) })
}

/** Statuses of requests on separate connections, which both workers accept. */
export async function ask(service: Running, path: string, count: number): Promise<number[]> {
  const bytes = `GET ${path} HTTP/1.1\r\nHost: gatehouse.example\r\nConnection: close\r\n\r\n`
  const answers = await Promise.all(times(count, () => exchange(service.address, bytes)))
  return answers.flat().map(({ status }) => status)
}

export const KEY_SET = '/api/.well-known/jwks.json'

export async function readiness({ ops }: Running): Promise<number> {
  const { statusCode, body } = await request(`${ops}/readyz`)
  await body.dump()
  return statusCode
}

export async function metricsOf({ ops }: Running): Promise<string> {
  return await (await request(`${ops}/metrics`)).body.text()
}

export function sumOf(metrics: string, name: string): number {
  const lines = metrics.split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

export const ANSWERED =
  'gatehouse_http_request_duration_seconds_count{method="GET",route="/api/.well-known/jwks.json"'

export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(50)
}

export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

export function loginOf(person: { companyId: string; email: string; password: string }) {
  const { companyId, email, password } = person
  const headers = { 'content-type': 'application/json' }
  return { method: 'POST' as const, headers, body: JSON.stringify({ companyId, email, password }) }
}
