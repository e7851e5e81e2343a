import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'

export type Sealer = ReturnType<typeof createSealer>

export class DecryptionError extends Error {
  override name = 'DecryptionError'
}

/** The last part of a sealed value (RFC 7518, section 5.1). Earlier releases do not write it, and ignore it. */
const ALGORITHM = 'A256GCM'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** HKDF-SHA256 (RFC 5869). */
export function deriveKey(masterKey: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', `gatehouse ${purpose}`, 32))
}

/** Encryption at rest (AES-256-GCM). The context is authenticated, so a value moved to a different row does not open. */
export function createSealer(
  masterKeys: readonly { id: string; key: Buffer }[],
  randomBytes: (size: number) => Buffer,
) {
  const keys = new Map(masterKeys.map(({ id, key }) => [id, deriveKey(key, 'sealing')]))
  const [current] = keys
  if (!current) throw new Error('sealing needs a master key')
  const [currentId, currentKey] = current
  return {
    seal(plaintext: Buffer, context: string): string {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', currentKey, nonce).setAAD(Buffer.from(context))
      const bytes = Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
      return `${currentId}.${bytes.toString('base64url')}.${ALGORITHM}`
    },
    /** @throws DecryptionError if the value was altered or moved, or its master key is not configured */
    open(sealed: string, context: string): Buffer {
      const [id = '', encoded = '', algorithm = ALGORITHM] = sealed.split('.')
      if (algorithm !== ALGORITHM)
        throw new DecryptionError(
          `a value is encrypted by "${algorithm}", which this release does not support`,
        )
      const key = keys.get(id)
      if (!key)
        throw new DecryptionError(
          `a value is encrypted under the master key "${id}", which is not in MASTER_KEYS`,
        )
      const bytes = Buffer.from(encoded, 'base64url')
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-TAG_BYTES))
      try {
        return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
      } catch (cause) {
        throw new DecryptionError(
          `a value cannot be decrypted with the master key "${id}" in MASTER_KEYS: it was altered, or a different key had that ID when it was encrypted`,
          { cause },
        )
      }
    },
    isCurrent: (sealed: string) => sealed.startsWith(`${currentId}.`) && sealed.endsWith(`.${ALGORITHM}`),
  }
}
