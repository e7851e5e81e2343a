import type { Kysely } from 'kysely'
import type { Config } from './config.ts'
import type { Digests } from './crypto/digests.ts'
import type { IsBreached } from './crypto/password-policy.ts'
import type { Sealer } from './crypto/sealing.ts'
import type { MeasureBatch } from './database/batch.ts'
import type { Database } from './database/schema.ts'
import type { Counters } from './limits/counters.ts'
import type { LimitedHasher } from './limits/hashing.ts'
import type { System } from './system.ts'
import type { Tokens } from './token/service.ts'

/** What a process opens once and services share. A function asks for its part, by `Pick`. */
export interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  sealer: Sealer
  digests: Digests
  tokens: Tokens
  hasher: LimitedHasher
  counters: Counters
  measureBatch: MeasureBatch
  isBreached?: IsBreached | undefined
}
