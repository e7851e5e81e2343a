import { type ObjectOptions, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { MAX_EMAIL_LENGTH } from './email-address.ts'

export function field<Schema extends TSchema>(
  schema: Schema,
  description: string,
  example?: unknown,
): Schema {
  return { ...schema, description, ...(example !== undefined && { examples: [example] }) }
}

export const object = <Properties extends TProperties>(
  title: string,
  description: string,
  properties: Properties,
) => Type.Object(properties, { title, description })

export const body = <Properties extends TProperties>(
  title: string,
  description: string,
  properties: Properties,
  options?: ObjectOptions,
) => Type.Object(properties, { additionalProperties: false, ...options, title, description })

/** Fastify validates a missing body as null. */
export function optionalBody<Body extends TSchema>(schema: Body) {
  return Type.Union([schema, Type.Null()])
}

export const Uuid = Type.String({ format: 'uuid', examples: ['01890a5d-ac96-774b-bcce-b302099a8057'] })
export const Time = Type.String({ format: 'date-time', examples: ['2026-11-20T10:15:00.000Z'] })

/** For requests: the format would allow a leading `urn:uuid:`, which the database refuses. */
export const Id = Type.String({
  format: 'uuid',
  maxLength: 36,
  examples: ['01890a5d-ac96-774b-bcce-b302099a8057'],
})

/** company/handles.ts checks its form. */
export const Company = Type.String({
  minLength: 1,
  maxLength: 40,
  description: 'Handle of the company, instead of `companyId`',
  examples: ['acme-4821'],
})

export const CompanyHandle = Type.Union([Type.String(), Type.Null()], {
  description: 'Handle that people type instead of the company ID; null until one is set',
  examples: ['acme-4821'],
})

export const Email = Type.String({
  format: 'idn-email',
  maxLength: MAX_EMAIL_LENGTH,
  description:
    'Email address. It is compared in lower case and NFC, and a Unicode domain is converted to ASCII',
  examples: ['ada@acme.example'],
})

/** Bounds the work of crypto/password-policy.ts, which checks the length after NFC. */
export const Password = Type.String({
  minLength: 1,
  maxLength: 1024,
  examples: ['correct horse battery staple'],
})

/** No pattern: a malformed token gets the same response as an invalid one. */
export const linkToken = (prefix: 'verify' | 'reset' | 'invite' | 'confirm' | 'undo') =>
  Type.String({
    maxLength: 1024,
    description: 'Token from the fragment of the emailed link. It works once',
    examples: [`${prefix}_3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`],
  })

export const MailCode = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 64,
    description: 'Emailed code, for members without a second factor. Spaces and dashes are ignored',
    examples: ['48201946'],
  }),
)

/** Empty, so that it reveals nothing about an account. */
export const AcceptedReply = Type.Object(
  {},
  {
    additionalProperties: false,
    title: 'AcceptedReply',
    description: 'Always empty, so that it reveals nothing about an account',
  },
)
