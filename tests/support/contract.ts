import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { inject } from 'vitest'

/** Compares every response in tests with the OpenAPI document: its status, headers, type, code, and body. */

export interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the form of the response that it expects
  body: any
}

interface Document {
  paths: Record<string, Record<string, { responses: Record<string, Described | undefined> }>>
}

interface Described {
  headers?: Record<string, unknown>
  content?: Record<string, { examples?: Record<string, unknown> } | undefined>
}

/** Some responses lack these: those without a limit, and those in token mode. */
const OPTIONAL_HEADERS = ['RateLimit', 'RateLimit-Policy', 'Set-Cookie']

function createContract(json: string) {
  const document: Document = JSON.parse(json)
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(document, 'openapi')
  const templates = Object.keys(document.paths).map((path) => ({
    path,
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
  }))
  const validators = new Map<string, ValidateFunction>()

  /** Compiles each schema once, on first use. */
  function validatorOf(...place: string[]): ValidateFunction {
    const parts = place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    const pointer = parts.join('/')
    const validate = validators.get(pointer) ?? ajv.compile({ $ref: `openapi#/${pointer}` })
    validators.set(pointer, validate)
    return validate
  }

  /** Returns the first difference. Refusals of unknown paths and methods, and preflights, belong to no operation. */
  function differenceOf(method: string, path: string, answer: Answer): string | undefined {
    const { status, headers, body } = answer
    const verb = method === 'HEAD' ? 'get' : method.toLowerCase()
    const matching = templates.filter(({ pattern }) => pattern.test(path)).map((one) => one.path)
    const template = matching.find((one) => document.paths[one]?.[verb]) ?? ''
    const operation = document.paths[template]?.[verb]
    if (!operation) {
      const isPage = path.startsWith('/../')
      return status >= 400 || method === 'OPTIONS' || isPage ? undefined : 'it has no such operation'
    }
    const described = operation.responses[status]
    if (!described) return 'it does not list this status'
    const required = Object.keys(described.headers ?? {}).filter((name) => !OPTIONAL_HEADERS.includes(name))
    const missing = required.find((name) => headers[name.toLowerCase()] === undefined)
    if (missing) return `the header ${missing} is missing`
    if (method === 'HEAD' || (!described.content && body === '')) return undefined
    const [type = ''] = String(headers['content-type']).split(';')
    const media = described.content?.[type]
    if (!media) return `it does not list the type ${type}`
    // An example's name is its code, with the status if that is not the code's usual one.
    const codes = Object.keys(media.examples ?? {}).map((name) => name.replace(/_\d+$/, ''))
    if (status >= 400 && !codes.includes(body.code)) return `it does not list the code ${body.code}`
    if (typeof body === 'string') return undefined
    const responses = ['paths', template, verb, 'responses']
    const validate = validatorOf(...responses, String(status), 'content', type, 'schema')
    return validate(body) ? undefined : ajv.errorsText(validate.errors)
  }

  return (method: string, target: string, answer: Answer) => {
    const difference = differenceOf(method, target.split('?')[0] ?? '', answer)
    if (difference === undefined) return
    throw new Error(
      `${method} ${target} returned ${answer.status}, not as in the OpenAPI document: ${difference}`,
    )
  }
}

const { api, platform } = inject('openapi')
export const checkApi = createContract(api)
export const checkPlatform = createContract(platform)
