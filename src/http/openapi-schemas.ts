/** Gives the schemas of the document names and examples. A schema is named by its title. */

export interface Schema {
  title?: string
  type?: string
  const?: unknown
  enum?: unknown[]
  examples?: unknown[]
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  $ref?: string
}

type Named = Record<string, Schema>

/** Collects the schemas that have a title. `name` returns a reference to such a schema, and all else as it is. */
export function createNames(): { schemas: Named; name(value: unknown): unknown } {
  const schemas: Named = {}
  function name(value: unknown): unknown {
    if (!isTitled(value)) return value
    const { title, ...schema } = value
    const known = schemas[title]
    if (known && JSON.stringify(known) !== JSON.stringify(schema)) {
      throw new Error(`two schemas have the title ${title}`)
    }
    schemas[title] = schema
    return { $ref: `#/components/schemas/${title}` }
  }
  return { schemas, name }
}

function isTitled(value: unknown): value is Schema & { title: string } {
  if (typeof value !== 'object' || value === null || !('title' in value) || !('type' in value)) return false
  return value.type === 'object' && typeof value.title === 'string'
}

/** An example of a schema, made of those of its fields. */
export function exampleOf(schema: Schema, schemas: Named): unknown {
  const { $ref, examples, enum: words, anyOf, properties, items } = schema
  const name = $ref?.split('/').at(-1)
  if (name !== undefined) return exampleOf(schemas[name] ?? {}, schemas)
  if (examples?.[0] !== undefined) return examples[0]
  if (schema.const !== undefined) return schema.const
  if (words) return words[0]
  if (anyOf?.[0]) return exampleOf(anyOf[0], schemas)
  if (items) return [exampleOf(items, schemas)]
  if (properties) {
    return Object.fromEntries(
      Object.entries(properties).map(([field, one]) => [field, exampleOf(one, schemas)]),
    )
  }
  return schema.type === 'object' ? {} : null
}
