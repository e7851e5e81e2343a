import { refreshFlood, sessionFlood } from './flooded.ts'
import { ingest, ingestBatch } from './ingest.ts'
import { login } from './login.ts'
import { logout } from './logout.ts'
import { mix } from './mix.ts'
import { introspect, verify } from './platform.ts'
import { refresh } from './refresh.ts'
import { scale } from './scale.ts'
import type { Scenario } from './scenario.ts'
import { session } from './session.ts'

/** All scenarios by the name that --scenario takes. */
export const SCENARIOS: Record<string, Scenario> = {
  login,
  session,
  refresh,
  logout,
  ingest,
  'ingest-batch': ingestBatch,
  introspect,
  verify,
  mix,
  'refresh-flood': refreshFlood,
  'session-flood': sessionFlood,
  scale,
}

/** What runs without --scenario. */
export const DEFAULT_SCENARIOS = ['login', 'session', 'refresh', 'logout', 'ingest', 'ingest-batch', 'mix']
