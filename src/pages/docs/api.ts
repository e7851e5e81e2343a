/** The parts of the OpenAPI document that the reference shows. */

export interface Schema {
  type?: string
  format?: string
  enum?: unknown[]
  description?: string
  required?: string[]
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  $ref?: string
}

export interface Media {
  schema: Schema
  example?: unknown
  examples?: Record<string, unknown>
}

export interface Operation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security: Record<string, string[]>[]
  parameters?: (Parameter | { $ref: string })[]
  requestBody?: { required: boolean; content: Record<string, Media> }
  responses: Record<string, { description: string; content?: Record<string, Media> }>
}

interface Parameter {
  in: string
  name: string
  required?: boolean
  description: string
  schema: Schema
  example?: unknown
}

export interface Api {
  servers: [{ url: string }]
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema>; parameters: Record<string, Parameter> }
}

/** A request needs one of these schemes. If the list is empty, it needs no credential. */
export function schemesOf(security: Operation['security']): string[] {
  const names = security.map((schemes) => Object.keys(schemes))
  return names.every(({ length }) => length > 0) ? names.flat() : []
}
