import { Histogram, type Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import { createDigests } from '../crypto/digests.ts'
import { createOpaque } from '../crypto/opaque.ts'
import { type Checks, createIsBreached } from '../crypto/password-policy.ts'
import { createSealer, deriveKey } from '../crypto/sealing.ts'
import { type Batch, type BatchOptions, createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Connection } from '../database/connect.ts'
import type { LimitedHasher } from '../limits/admission.ts'
import { createCounters } from '../limits/counters.ts'
import type { System } from '../system.ts'
import type { Tokens } from '../token/plugin.ts'

export interface ContextOptions {
  config: Config
  db: Connection['db']
  auditDb: Connection['auditDb']
  system: System
  hasher: LimitedHasher
  registry: Registry
}

/** Opened once per process, and shared by services. A function takes its part by `Pick`. */
export type Context = ReturnType<typeof createContext> & { tokens: Tokens }

export interface Batched<Item, Outcome> extends Omit<BatchOptions<Item, Outcome>, 'run'> {
  name: string
  /** Returns one outcome per item, in order. */
  run(context: Pick<ContextOptions, 'db' | 'config'>, items: Item[]): Promise<Outcome[]>
}

export function createContext(
  options: ContextOptions,
  notice: (message: string, details: Record<string, unknown>) => void,
) {
  const { config, db, system } = options
  const measureBatch = createBatchMeasure(options.registry)
  const checks: Pick<Checks, 'isBreached'> = {
    isBreached: createIsBreached(config.breachedPasswordsUrl, (cause) =>
      notice('the breached password service did not respond, accepting passwords without it', { cause }),
    ),
  }
  return {
    ...options,
    ...checks,
    sealer: createSealer(config.masterKeys, system.randomBytes),
    digests: createDigests(config.masterKeys),
    opaque: createOpaque(config.cell, system.randomBytes),
    /** For digests of known networks, one per master key. New digests use the first. */
    networkKeys: config.masterKeys.map(({ key }) => deriveKey(key, 'known networks')),
    counters: createCounters(db, measureBatch),
    measureBatch,
    inBatch: createBatches(options, measureBatch),
  }
}

function createBatches(context: ContextOptions, measureBatch: MeasureBatch) {
  const open = new Map<object, unknown>()
  return <Item, Outcome>(batched: Batched<Item, Outcome>, item: Item): Promise<Outcome> => {
    // The key determines the types of its batch.
    let batch = open.get(batched) as Batch<Item, Outcome> | undefined
    if (!batch) {
      const { name, run, ...options } = batched
      batch = createBatch({ ...options, run: measureBatch(name, (items: Item[]) => run(context, items)) })
      open.set(batched, batch)
    }
    return batch(item)
  }
}

function createBatchMeasure(registry: Registry): MeasureBatch {
  const sizes = new Histogram({
    name: 'gatehouse_batch_size',
    help: 'Requests sent to Postgres as one statement, by batch',
    labelNames: ['batch'],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128],
    registers: [registry],
  })
  return (name, run) => {
    const size = sizes.labels(name)
    return (items) => {
      size.observe(items.length)
      return run(items)
    }
  }
}
