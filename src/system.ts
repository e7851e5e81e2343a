import { randomBytes, randomFillSync } from 'node:crypto'

export interface System {
  now(): number
  /** Milliseconds for durations. Unlike the clock, it never steps back. */
  elapsed(): number
  randomBytes(size: number): Buffer
}

export const realSystem: System = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  randomBytes: createPool(),
}

/** Reads blocks, because each read from the operating system is expensive. Wipes bytes that it has returned. */
function createPool(): System['randomBytes'] {
  const pool = Buffer.alloc(8_192)
  let used = pool.length
  return (size) => {
    if (size > pool.length / 64) return randomBytes(size)
    if (used + size > pool.length) {
      randomFillSync(pool)
      used = 0
    }
    const bytes = Buffer.from(pool.subarray(used, used + size))
    pool.fill(0, used, used + size)
    used += size
    return bytes
  }
}

/** At least 0 and below 1, to spread out work that would start together. */
export function randomFraction({ randomBytes }: System): number {
  return randomBytes(2).readUInt16BE() / 65_536
}

export const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** The nil UUID (RFC 9562, section 5.9). No row has it, and it sorts before all others. */
export const NIL_ID = '00000000-0000-0000-0000-000000000000'

/** A UUIDv7 (RFC 9562, section 5.7). Time order keeps new rows close together in a primary key. */
export function newId(system: Pick<System, 'now' | 'randomBytes'>): string {
  const bytes = system.randomBytes(16)
  bytes.writeUIntBE(system.now(), 0, 6)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
