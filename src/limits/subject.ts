import { createHash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { widerNetworkOf } from '../edge/network.ts'
import type { Limit, LimitState } from './list.ts'

/** What a limit counts by: values that together name one counter, or a network. */
export type Subject = readonly string[] | ByNetwork | ByDevice

export interface ByNetwork {
  network: string
  /** Values that the counter is about as well, such as a company. */
  about: readonly string[]
}

/** Counts by network (an IPv4 address or an IPv6 /64), and also by the IPv6 /48. */
export function byNetwork(network: string, ...about: string[]): ByNetwork {
  return { network, about }
}

interface ByDevice {
  device: string
  network: string
}

/**
 * Counts by device, which others of its network then cannot lock out. The devices of one network together have four
 * times as many uses: anyone can make many devices known for accounts of their own.
 */
export function byDevice(device: string, network: string): ByDevice {
  return { device, network }
}
const DEVICES_FACTOR = 4

/** One customer can have a /48, and with it 65 536 networks. So the /48 has a counter of its own. */
export function widerLimitOf(limit: Limit): Limit {
  return { ...limit, name: `${limit.name}-48`, max: limit.max * WIDER_FACTOR }
}
const WIDER_FACTOR = 4

/** The /48 of a subject that is an IPv6 network. */
export function widerOf(subject: readonly string[] | ByNetwork): ByNetwork | undefined {
  if (!('network' in subject) || !isIPv6(subject.network)) return undefined
  return byNetwork(widerNetworkOf(subject.network), ...subject.about)
}

/** One counter: how high it goes, and the values that name it together with the limit's name. */
export interface Quota {
  limit: Limit
  values: readonly string[]
}

/**
 * The counters of a subject. The /64 comes first: a use that it refuses must not take anything from the others
 * in the /48, whose counter has another name, since both networks can be written the same.
 */
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

/** The state of the counter that has the fewest uses left. */
export function tightest(states: LimitState[]): LimitState {
  return states.reduce((least, state) => (state.remaining < least.remaining ? state : least))
}

/**
 * The name of a counter. Its values are hashed, so the table contains no e-mail or IP addresses; the first two by
 * themselves, so that the names of all counters of an account begin with the same text.
 */
export function counterOf({ limit, values }: Quota): string {
  const hashes = [values.slice(0, 2), values.slice(2)].filter((part) => part.length > 0).map(hashOf)
  return `${limit.name}:${hashes.join('.')}`
}

function hashOf(part: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(part)).digest('base64url').slice(0, 22)
}
