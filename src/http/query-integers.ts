import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Problem } from '../errors.ts'

interface Bounds {
  name: string
  minimum: number
  maximum: number
}

/** Before Ajv makes a number of it: Ajv also takes `0x10`, `1e1`, `+5`, and spaces. */
const DECIMAL = /^(?:0|[1-9][0-9]*)$/

/** Whole numbers in queries have only decimal digits, and the bounds of their schema. */
async function plugin(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    const integers = integersOf(route.schema?.querystring)
    if (integers.length === 0) return
    const check = async ({ query }: FastifyRequest) => {
      for (const bounds of integers) requireInteger(Object(query)[bounds.name], bounds)
    }
    route.preValidation = [check, route.preValidation ?? []].flat()
  })
}

function integersOf(schema: unknown): Bounds[] {
  return Object.entries(Object(Object(schema).properties)).flatMap(([name, property]) => {
    const { type, minimum, maximum } = Object(property)
    if (type !== 'integer') return []
    if (minimum === undefined || maximum === undefined) throw new Error(`${name} has no bounds`)
    return [{ name, minimum, maximum }]
  })
}

function requireInteger(given: unknown, { name, minimum, maximum }: Bounds): void {
  if (given === undefined) return
  if (DECIMAL.test(String(given)) && Number(given) >= minimum && Number(given) <= maximum) return
  throw new Problem('invalid_request', 'The request does not have the form that this endpoint takes.', {
    errors: [
      { path: `/querystring/${name}`, message: `must be a whole number from ${minimum} to ${maximum}` },
    ],
  })
}

export const queryIntegersPlugin = fp(plugin, { name: 'query-integers' })
