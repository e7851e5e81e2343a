import { Type } from '@sinclair/typebox'

/** Fields that several endpoints take or give, so that they are the same in all of them. */

/** Of answers. */
export const Uuid = Type.String({ format: 'uuid' })
export const Time = Type.String({ format: 'date-time' })

/** Of requests: the format alone would admit `urn:uuid:` before it, which the database does not know. */
export const Id = Type.String({ format: 'uuid', maxLength: 36 })

/** E-mail addresses are ASCII: what looks like one of another script can never become somebody else's. */
export const Email = Type.String({ format: 'email', maxLength: 254 })

/**
 * Characters are counted after NFC, which may make fewer of them; this bounds the work of counting. Which may
 * be chosen is in crypto/password-policy.ts.
 */
export const Password = Type.String({ minLength: 1, maxLength: 1024 })
