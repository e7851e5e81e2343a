import { readFile } from 'node:fs/promises'
import { vi } from 'vitest'
import { type Person, signIn } from './members.ts'
import type { Side } from './side.ts'

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** The names that programs rely on: in the OpenAPI documents, the metrics, and the log lines of requests. */
export async function namesOf(side: Side, person: Person): Promise<Set<string>> {
  // Earlier releases have no platform listener, and none of its names.
  const [document, platformDocument, metrics] = await Promise.all([
    read(`${side.url}/api/openapi.json`),
    read(`${side.platformUrl || side.url}/openapi.json`),
    read(`${side.opsUrl}/metrics`),
  ])
  return new Set([
    ...[document, platformDocument].flatMap((text) => namesOfOperations(JSON.parse(text))),
    ...(metrics.match(/(?<=^# TYPE )\S+/gm) ?? []).map((name) => `metric ${name}`),
    ...(await readLogKeys(side, person)).map((key) => `log ${key}`),
  ])
}

async function read(url: string): Promise<string> {
  return await (await fetch(url)).text()
}

/** Both sides log a sign-in and a refused one, whatever tests ran before. */
async function readLogKeys(side: Side, person: Person): Promise<string[]> {
  await signIn(side, person)
  await side.ask('POST /auth/login', { json: { ...person, password: 'wrong' } }, '401 invalid_credentials')
  async function find() {
    const log = await readFile(`${side.dataFolder}.log`, 'utf8')
    return log.includes('"code":"invalid_credentials"') && log.match(/^.*"requestId":.*$/gm)
  }
  const lines = await vi.waitUntil(find, { timeout: 100_000 })
  return lines.flatMap((line) => Object.keys(JSON.parse(line)))
}

const MAPS = ['responses', 'headers', 'content', 'properties']
const METHODS = ['get', 'head', 'post', 'put', 'patch', 'delete']
const VALUES = ['operationId', 'tags', 'enum', 'const']
const TEXTS = ['example', 'examples']

function namesOfOperations(document: { paths?: Record<string, Json> }): string[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) => namesIn(document, item, path))
}

/** Parameters, fields, and values, each with its place. Names of schemas may change. */
function namesIn(document: object, node: Json, at: string): string[] {
  if (Array.isArray(node)) return node.flatMap((each) => namesIn(document, each, at))
  if (typeof node !== 'object' || node === null) return []
  const { $ref, in: place, name } = node
  if (typeof $ref === 'string') return namesIn(document, resolve(document, $ref), at)
  const here = typeof place === 'string' ? `${at} ${place}:${name}` : at
  const inside = Object.entries(node).flatMap(([key, value]) => {
    if (TEXTS.includes(key)) return []
    if (VALUES.includes(key)) return [value].flat().map((one) => `${here} = ${one}`)
    if (!MAPS.includes(key)) return namesIn(document, value, METHODS.includes(key) ? `${here} ${key}` : here)
    return Object.entries(value ?? {}).flatMap(([each, part]) => namesIn(document, part, `${here} ${each}`))
  })
  return [here, ...inside]
}

function resolve(document: object, reference: string): Json {
  const keys = reference.split('/').slice(1)
  return keys.reduce((part, key) => Object(part)[key], Object(document))
}
