import { Type } from '@sinclair/typebox'

/** Fields that several endpoints share, so that they are the same in all of them. */

/** For answers. */
export const Uuid = Type.String({ format: 'uuid' })
export const Time = Type.String({ format: 'date-time' })

/** For requests. The format alone would allow a leading `urn:uuid:`, which the database refuses. */
export const Id = Type.String({ format: 'uuid', maxLength: 36 })

/** E-mail addresses are ASCII, so a look-alike in another script cannot pass for another user's address. */
export const Email = Type.String({ format: 'email', maxLength: 254 })

/**
 * crypto/password-policy.ts checks the length after NFC, which can be shorter. This bound limits the work of
 * that check.
 */
export const Password = Type.String({ minLength: 1, maxLength: 1024 })
