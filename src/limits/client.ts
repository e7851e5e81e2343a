import { createHash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Limit } from '../config/limits.ts'
import { networkOfIpAddress, widerNetworkOf } from '../edge/network.ts'
import type { LimitState } from '../errors.ts'
import type { System } from '../system.ts'

declare module 'fastify' {
  interface FastifyRequest {
    ipAddress: string
    /** The service account that named the IP address: see session/client-ip-guard.ts. */
    via: Via | null
    /** Aborted after the deadline, with the problem to respond with: see http/deadline.ts. */
    overdue: AbortSignal
    /** The response reports the limit that a service noted, or else the one that a guard counted last. */
    limit: LimitState | null
    guardLimit: LimitState | null
  }
}

export interface Via {
  companyId: string
  userId: string
}

export interface Client {
  ipAddress: string
  network: string
  via: Via | null
  userAgent: string | undefined
  signal: AbortSignal
  /** The RateLimit headers report it; with null, they report the guards' limit again. */
  noteLimit(limit: LimitState | null): void
}

/** `now` is in milliseconds. */
export interface Received {
  client: Client
  now: number
}

export function clientOf(request: FastifyRequest): Client {
  const { 'user-agent': userAgent } = request.headers
  const { overdue: signal, via } = request
  const noteLimit = (limit: LimitState | null) => {
    request.limit = limit
  }
  return { ipAddress: request.ipAddress, network: networkOf(request), via, userAgent, signal, noteLimit }
}

export function receivedOf(request: FastifyRequest, { system }: { system: Pick<System, 'now'> }): Received {
  return { client: clientOf(request), now: system.now() }
}

/** An IPv4 address, or an IPv6 /64, because one customer has a whole /64. */
export function networkOf(request: Pick<FastifyRequest, 'ipAddress'>): string {
  return networkOfIpAddress(request.ipAddress)
}

export type Subject = readonly string[] | ByNetwork | ByDevice

export interface ByNetwork {
  network: string
  about: readonly string[]
}

export function byNetwork(network: string, ...about: string[]): ByNetwork {
  return { network, about }
}

/** For counters of all companies: one company's servers must not use up the limit of networks that they name. */
export function byClient({ network, via }: Pick<Client, 'network' | 'via'>): ByNetwork {
  return via ? byNetwork(network, via.companyId) : byNetwork(network)
}

interface ByDevice {
  device: string
  client: ByNetwork
}

/** Others on its network cannot lock out a device. An attacker can make many devices known, so together they have a limit too. */
export function byDevice(device: string, client: ByNetwork): ByDevice {
  return { device, client }
}
const DEVICES_FACTOR = 4

/** One customer can have a /48, with 65,536 networks, so the /48 has its own counter. */
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
    return [{ limit, values: [subject.device] }, ...quotasOf(ofAll, subject.client)]
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

/** Hashed: the table must not contain emails. All counters of an account begin with the hash of company and email. */
export function counterOf({ limit, values }: Quota): string {
  const hashes = [values.slice(0, 2), values.slice(2)].filter((part) => part.length > 0).map(hashOf)
  return `${limit.name}:${hashes.join('.')}`
}

function hashOf(part: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(part)).digest('base64url').slice(0, 22)
}
