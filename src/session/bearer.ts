import type { FastifyRequest } from 'fastify'
import { Problem } from '../errors.ts'
import { headerValues } from '../header-values.ts'

/**
 * Returns the token of the only `Authorization: Bearer` header (RFC 6750, section 2.1).
 * @throws Problem missing_credentials
 */
export function readBearer(request: FastifyRequest): string {
  const [token = '', ...others] = headerValues(request.raw, 'authorization')
  const [, bearer] = /^Bearer +(\S+)$/i.exec(token) ?? []
  if (!bearer || others.length > 0) {
    throw new Problem('missing_credentials', 'Send one header `Authorization: Bearer <token>`.')
  }
  return bearer
}
