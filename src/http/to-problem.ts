import type { FastifyError } from 'fastify'
import { isUnavailable } from '../database/faults.ts'
import { Problem, type ProblemCode } from '../errors.ts'

/** Maps an error to the problem that the client gets. An unknown error becomes `internal_error`. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  if (isUnavailable(error)) {
    return new Problem('unavailable', 'The service cannot reach its database; try again in a moment.', {
      retryAfterSeconds: 1,
      cause: error,
    })
  }
  return (
    (isFastifyError(error) && fromFastify(error)) ||
    new Problem('internal_error', 'Something went wrong here; the request id helps to find out what.', {
      cause: error,
    })
  )
}

function isFastifyError(error: unknown): error is FastifyError {
  return error instanceof Error && 'code' in error
}

function fromFastify(error: FastifyError): Problem | null {
  if (error.validation) return fromValidation(error.validation, error.validationContext)
  const known = FRAMEWORK[error.code]
  if (known) return new Problem(...known)
  const isRefusal = error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500
  return isRefusal ? new Problem('malformed_http', 'The request is not valid HTTP.') : null
}

const FRAMEWORK: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', 'The body is larger than this endpoint takes.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_http', 'The body is not as long as Content-Length says.'],
}

type Fault = NonNullable<FastifyError['validation']>[number]

/** These replace the validator's messages, which use the terms of schemas. */
const MESSAGES: Record<string, string> = { additionalProperties: 'is not known here', required: 'is missing' }
const FORMATS: Record<string, string> = {
  'idn-email': 'must be an e-mail address',
  uuid: 'must be a UUID',
  'date-time': 'must be a time (RFC 3339), such as 2026-11-20T10:15:00Z',
}

function messageOf(fault: Fault): string {
  const { keyword, params, message } = fault
  const { format, allowedValues } = params
  const known = MESSAGES[keyword] ?? FORMATS[String(format)]
  if (known !== undefined) return known
  if (keyword === 'pattern') return ruleOf(fault)
  return Array.isArray(allowedValues) ? `must be one of ${allowedValues.join(', ')}` : (message ?? NOT_VALID)
}

const NOT_VALID = 'is not valid'

/** A pattern means nothing to people, so its schema says the rule in words. */
function ruleOf(fault: object): string {
  const schema = 'parentSchema' in fault ? fault.parentSchema : null
  const hasRule = typeof schema === 'object' && schema !== null && 'x-must' in schema
  return hasRule ? String(schema['x-must']) : NOT_VALID
}

const MAX_ERRORS = 10

function fromValidation(validation: Fault[], context: FastifyError['validationContext']): Problem {
  const prefix = context === 'body' ? '' : `/${context ?? ''}`
  // For an optional body or a union, only the errors inside one of the forms help the client.
  const helpful = validation.filter(
    ({ keyword, params }) =>
      keyword !== 'anyOf' && keyword !== 'if' && !(keyword === 'type' && params['type'] === 'null'),
  )
  const errors = (helpful.length > 0 ? helpful : validation).slice(0, MAX_ERRORS).map((fault) => {
    const { instancePath, keyword, params } = fault
    const name = keyword === 'required' ? params['missingProperty'] : params['additionalProperty']
    return {
      path: `${prefix}${instancePath}${typeof name === 'string' ? `/${name}` : ''}`,
      message: messageOf(fault),
    }
  })
  return new Problem('invalid_request', 'The request does not have the form that this endpoint takes.', {
    errors,
  })
}
