import { randomUUID } from 'node:crypto'
import { signInsSucceed, staysFast } from '../aims.ts'
import { getText, postText } from '../generators/request-text.ts'
import { sendSteadily } from '../generators/steady-requests.ts'
import { loopbackIpAddress } from '../networks.ts'
import type { Flood, Victim } from './flood.ts'

/** Connections on which requests follow each other without waiting for an answer. */

const ATTACKER = loopbackIpAddress(3, 0)
const CONNECTIONS = 50
const BURST = 100

function pipelining(what: string, rate: number, requestOf: (victim: Victim) => () => string): Flood {
  return {
    about: `${CONNECTIONS} connections of one network that pipeline ${what}, ${rate.toLocaleString('en')} a second`,
    needsProxy: true,
    aims: [signInsSucceed(0.98), staysFast(3, 'session check')],
    attack: (victim) =>
      sendSteadily({
        url: victim.url,
        rate,
        connections: CONNECTIONS,
        depth: Number.POSITIVE_INFINITY,
        burst: BURST,
        localAddress: ATTACKER,
        requestOf: requestOf(victim),
      }),
  }
}

const nowhere = getText('/api/nowhere')
const sessionCheck = getText('/api/auth/session')

export const pipelinedUnknown = pipelining('requests of an unknown path', 20_000, () => () => nowhere)

export const pipelinedSessions = pipelining(
  'session checks without a credential',
  20_000,
  () => () => sessionCheck,
)

export const pipelinedSignIns = pipelining('sign-ins', 5_000, ({ companyId }) => {
  const body = { companyId, email: `${randomUUID()}@nobody.example`, password: 'a wrong password' }
  const text = postText('/api/auth/login', JSON.stringify(body))
  return () => text
})
