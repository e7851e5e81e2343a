import type { ReceivedMail } from '../../scripts/kit/mail-server.ts'
import { createDigests } from '../../src/crypto/digests.ts'
import { issueCode } from '../../src/second-factor/mailbox.ts'
import type { TestService } from './test-service.ts'

type Mail = 'mailbox_code' | 'email_change_code' | 'admin_code'
type Service = Pick<TestService, 'db' | 'config' | 'clock' | 'getSession'>

/** Creates the emailed code directly, as the sender of emails does. Few tests are about the email itself. */
export async function mailedCodeOf(
  { db, config, clock, getSession }: Service,
  credential: { token?: string; cookie?: string },
  mail: Mail,
): Promise<string> {
  const { accessContext, user, session } = (await getSession(credential)).body
  const member = { companyId: accessContext.companyId, userId: user.id, sessionId: session.id }
  const digests = createDigests(config.masterKeys)
  return await issueCode({ db, system: clock, digests }, member, mail, clock.now())
}

export function codeIn({ email }: ReceivedMail): string {
  const [, one, other] = /^(\d{4}) (\d{4})$/m.exec(email.text ?? '') ?? []
  return `${one}${other}`
}
