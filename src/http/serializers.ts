import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'

/**
 * Compiles the serializers of answers, each schema once a process. Fastify compiles one for each route and status, and
 * nearly all of them are the one of problems, which took half of the time in which the service starts.
 */

type Build = ReturnType<typeof SerializerSelector>
type Serializer = ReturnType<ReturnType<Build>>

/** By the schema's object. Schemas are constants, and the shared one that they refer to is too. */
const compiled = new WeakMap<object, Serializer>()

export const buildSerializer: Build = (...options) => {
  const compile = SerializerSelector()(...options)
  return (route) => {
    const schema = route.schema as object
    const serialize = compiled.get(schema) ?? compile(route)
    compiled.set(schema, serialize)
    return serialize
  }
}
