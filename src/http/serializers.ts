import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'

/**
 * Compiles the serializers of answers, each schema once a process. Fastify compiles one for each route and status, which
 * takes more time than all else in building the app, and nearly all of them are that of problems.
 */

type Build = ReturnType<typeof SerializerSelector>
type Serializer = ReturnType<ReturnType<Build>>

/**
 * By the schema's object, which nothing changes. All apps have the same shared schema, and no options of serializers, so
 * what was compiled for one serves all.
 */
const compiled = new WeakMap<object, Serializer>()

export const buildSerializer: Build = (...options) => {
  const compile = SerializerSelector()(...options)
  return (route) => {
    const { schema } = route
    // True and false are schemas too.
    if (!(schema instanceof Object)) return compile(route)
    const known = compiled.get(schema)
    if (known) return known
    const serialize = compile(route)
    compiled.set(schema, serialize)
    return serialize
  }
}
