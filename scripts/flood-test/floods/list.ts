import { type Aim, findingsHold, memoryBelow, succeed } from '../aims.ts'
import { hugeBodies, unfinishedBodies } from './bodies.ts'
import { disk } from './disk.ts'
import type { Flood } from './flood.ts'
import { guessing } from './guessing.ts'
import { mailFrom1, mailFrom100 } from './mail.ts'
import { manySessions } from './sessions.ts'
import {
  signInsFrom1,
  signInsFrom100,
  signInsFrom1000,
  signInsFrom5000,
  signInsFromIpv6,
} from './sign-ins.ts'
import { badSignaturesFrom1, badSignaturesFrom100, staleSignatures, unknownCompany } from './signatures.ts'

/** All floods by the name that --flood takes. A name before a dash stands for all that begin with it. */
export const FLOODS: Record<string, Flood> = {
  'sign-ins-1': signInsFrom1,
  'sign-ins-100': signInsFrom100,
  'sign-ins-1000': signInsFrom1000,
  'sign-ins-5000': signInsFrom5000,
  'sign-ins-ipv6': signInsFromIpv6,
  'bodies-unfinished': unfinishedBodies,
  'bodies-huge': hugeBodies,
  'signatures-1': badSignaturesFrom1,
  'signatures-100': badSignaturesFrom100,
  'signatures-stale': staleSignatures,
  'signatures-unknown': unknownCompany,
  'mail-1': mailFrom1,
  'mail-100': mailFrom100,
  sessions: manySessions,
  guessing,
  disk,
}

/** The names that one of --flood stands for: itself, or all of a family such as `sign-ins`. */
export function namesOf(given: string): string[] {
  return Object.keys(FLOODS).filter((name) => name === given || name.startsWith(`${given}-`))
}

/** One of each kind, for all together. */
export const TOGETHER = [
  'sign-ins-100',
  'sign-ins-ipv6',
  'bodies-unfinished',
  'signatures-100',
  'mail-100',
  'guessing',
  'disk',
]

/** What has to hold under all together. */
export const TOGETHER_AIMS: Aim[] = [
  succeed(
    0.98,
    'sign-in, known network',
    'sign-in, known device',
    'session check',
    'refresh',
    'signed event',
  ),
  memoryBelow(350),
  findingsHold,
]
