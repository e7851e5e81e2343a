import { inject } from 'vitest'

/** The OpenAPI document of the public listener. */

export interface Parameter {
  in: string
  name: string
  required?: boolean
  description?: string
  example?: unknown
  schema: { examples?: unknown[] } & Record<string, unknown>
}

interface Media {
  schema: { $ref?: string; anyOf?: { $ref?: string }[] } & Record<string, unknown>
  example?: object
  examples?: Record<string, object>
}

export interface Operation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security: Record<string, string[]>[]
  requestBody?: { required: boolean; content: Record<string, Media> }
  parameters: Parameter[]
  responses: Record<string, { description: string; headers?: object; content?: Record<string, Media> }>
}

export const document = JSON.parse(inject('openapi').api)
export const { schemas } = document.components

export const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      name: `${method.toUpperCase()} ${path}`,
      operation: { ...operation, parameters: (operation.parameters ?? []).map(resolveParameter) },
    })),
)

export function operationOf(id: string): Operation {
  const found = operations.find(({ operation }) => operation.operationId === id)
  if (!found) throw new Error(`the document has no operation ${id}`)
  return found.operation
}

function resolveParameter(parameter: Parameter | { $ref: string }): Parameter {
  return '$ref' in parameter
    ? document.components.parameters[parameter.$ref.split('/').at(-1) ?? '']
    : parameter
}
