import type { Operation } from '../drive/load.ts'
import { type Client, openClient } from '../http-client.ts'
import type { LiveSession } from '../operations/credentials.ts'
import * as operations from '../operations/platform.ts'
import type { Platform } from '../target/target.ts'
import { UsageError } from '../usage-error.ts'
import type { Scenario } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

/** To be compared with `session`: the same look-up, on the platform's listener. */

function onPlatform(
  ask: (client: Client, sessions: LiveSession[], platform: Platform) => Operation,
): Scenario['open'] {
  return async ({ findTarget, connections }, cleanup) => {
    const target = await findTarget()
    const { platform } = target
    if (!platform) throw new UsageError('This scenario needs a service that the load test starts itself.')
    const client = openClient(platform.url, { connections })
    cleanup.defer(() => client.close())
    const dealt = await dealSessions(target, connections, 16)
    return { target, operations: async () => dealt.map((sessions) => ask(client, sessions, platform)) }
  }
}

export const introspect: Scenario = {
  about: 'a service of the platform asks what each of 16 access tokens in turn is good for',
  connections: 64,
  open: onPlatform((client, sessions, { client: asking }) => operations.introspect(client, sessions, asking)),
}

export const verify: Scenario = {
  about: 'a reverse proxy asks whether requests with each of 16 access tokens in turn may pass',
  connections: 64,
  open: onPlatform(operations.verify),
}
