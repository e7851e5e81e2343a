import { ingestEvent } from '../operations/ingest.ts'
import { mix as mixOperations } from '../operations/mix.ts'
import { checkSession, refresh } from '../operations/sessions.ts'
import { signIn } from '../operations/sign-in.ts'
import { obtainSigningKey } from '../operations/signing-key.ts'
import { onTarget, type Scenario } from './scenario.ts'
import { dealSessions } from './virtual-users.ts'

export const mix: Scenario = {
  about: "a day's traffic: 60 % events, 35 % session checks, 4.9 % refreshes, 0.1 % sign-ins",
  connections: 64,
  open: onTarget(async ({ target, client, connections }) => {
    const { companyId } = target.admin
    const sender = { companyId, signingKey: await obtainSigningKey(client, target.admin) }
    const dealt = await dealSessions(target, connections, 16)
    const operations = dealt.map((sessions) =>
      mixOperations([
        { share: 0.6, operation: ingestEvent(client, sender) },
        { share: 0.35, operation: checkSession(client, sessions) },
        { share: 0.049, operation: refresh(client, sessions) },
        { share: 0.001, operation: signIn(client, target.people) },
      ]),
    )
    return { operations: async () => operations }
  }),
}
