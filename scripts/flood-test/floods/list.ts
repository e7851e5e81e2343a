import { hugeBodies, unfinishedBodies } from './bodies.ts'
import type { Flood } from './flood.ts'
import { pipelinedSessions, pipelinedSignIns, pipelinedUnknown } from './pipelining.ts'
import {
  signInsFrom1,
  signInsFrom100,
  signInsFrom1000,
  signInsFrom5000,
  signInsFromSite,
} from './sign-ins.ts'

/** All floods by the name that --flood takes. A name before a dash stands for all that begin with it. */
export const FLOODS: Record<string, Flood> = {
  'pipelining-unknown': pipelinedUnknown,
  'pipelining-sessions': pipelinedSessions,
  'pipelining-sign-ins': pipelinedSignIns,
  'sign-ins-1': signInsFrom1,
  'sign-ins-100': signInsFrom100,
  'sign-ins-1000': signInsFrom1000,
  'sign-ins-5000': signInsFrom5000,
  'sign-ins-ipv6': signInsFromSite,
  'bodies-unfinished': unfinishedBodies,
  'bodies-huge': hugeBodies,
}

/** The names that one of --flood stands for: itself, or all of a family such as `sign-ins`. */
export function namesOf(given: string): string[] {
  return Object.keys(FLOODS).filter((name) => name === given || name.startsWith(`${given}-`))
}
