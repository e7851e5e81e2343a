import { createHash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import type { Limit } from '../config/limits.ts'
import { widerNetworkOf } from '../edge/network.ts'
import type { LimitState } from '../errors.ts'

/** What a limit counts by. */
export type Subject = readonly string[] | ByNetwork | ByDevice

export interface ByNetwork {
  network: string
  about: readonly string[]
}

export function byNetwork(network: string, ...about: string[]): ByNetwork {
  return { network, about }
}

interface ByDevice {
  device: string
  network: string
}

/** Others of a network cannot lock out a device. An attacker can make many devices known, so together they have a limit too. */
export function byDevice(device: string, network: string): ByDevice {
  return { device, network }
}
const DEVICES_FACTOR = 4

/** One customer can have a /48, with 65 536 networks, so the /48 has a counter of its own. */
export function widerLimitOf(limit: Limit): Limit {
  return { ...limit, name: `${limit.name}-48`, max: limit.max * WIDER_FACTOR }
}
const WIDER_FACTOR = 4

export function widerOf(subject: readonly string[] | ByNetwork): ByNetwork | undefined {
  if (!('network' in subject) || !isIPv6(subject.network)) return undefined
  return byNetwork(widerNetworkOf(subject.network), ...subject.about)
}

export interface Quota {
  limit: Limit
  values: readonly string[]
}

/** The /64 comes first: a use that it refuses must not consume one of the /48. */
export function quotasOf(limit: Limit, subject: Subject): Quota[] {
  if ('device' in subject) {
    const ofAll = { ...limit, name: `${limit.name}-devices`, max: limit.max * DEVICES_FACTOR }
    return [{ limit, values: [subject.device] }, ...quotasOf(ofAll, byNetwork(subject.network))]
  }
  if (!('network' in subject)) return [{ limit, values: subject }]
  const { network, about } = subject
  const own = { limit, values: [...about, network] }
  const wider = widerOf(subject)
  return wider ? [own, { limit: widerLimitOf(limit), values: [...about, wider.network] }] : [own]
}

export function tightest(states: LimitState[]): LimitState {
  return states.reduce((least, state) => (state.remaining < least.remaining ? state : least))
}

/** Hashed, since the table must not contain e-mails. All counters of an account begin with the hash of company and e-mail. */
export function counterOf({ limit, values }: Quota): string {
  const hashes = [values.slice(0, 2), values.slice(2)].filter((part) => part.length > 0).map(hashOf)
  return `${limit.name}:${hashes.join('.')}`
}

function hashOf(part: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(part)).digest('base64url').slice(0, 22)
}
