import type { Aim } from '../aims.ts'
import type { Finding } from '../figures.ts'
import type { Attack } from '../generators/attack.ts'
import type { FloodTarget } from '../target/open-target.ts'

/** What attackers know of the service. */
export interface Victim {
  /** Without a path. */
  url: string
  /** Whether this is the URL of the proxy, to which connections from the IP address of a balancer name their client. */
  isProxied: boolean
  companyId: string
  /** Members whom no honest user is. */
  members: string[]
}

export interface Flood {
  about: string
  aims: Aim[]
  /** Starts it, in the process of the attackers. */
  attack?(victim: Victim): Attack
  /** Prepares the service before the flood. */
  prepare?(target: FloodTarget): Promise<void>
  /** What somebody does meanwhile, in the process of the flood test, and what they find. */
  meanwhile?(target: FloodTarget, seconds: number): Promise<Finding[]>
}
