import { createDigests } from '../../src/crypto/digests.ts'
import { issueCode } from '../../src/second-factor/mailbox.ts'
import type { TestService } from './test-service.ts'

/** The code that proves the mailbox of a member, made as its mail is sent; without the mail, which few tests are about. */
export async function mailedCodeOf(
  { db, config, clock, getSession }: Pick<TestService, 'db' | 'config' | 'clock' | 'getSession'>,
  credential: { token?: string; cookie?: string },
  mail: 'mailbox_code' | 'email_change_code' | 'admin_code',
): Promise<string> {
  const { body } = await getSession(credential)
  const { accessContext, user, session } = body
  const member = { companyId: accessContext.companyId, userId: user.id, sessionId: session.id }
  const digests = createDigests(config.masterKeys)
  return await issueCode({ db, system: clock, digests }, member, mail, clock.now())
}
