import { useEffect, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { useLoaded, Waiting } from '../data.tsx'
import { Section, Title } from '../parts.tsx'
import type { NewAuthenticator, SecondFactors, Session } from '../routes.ts'
import { AddFactor } from './add-factor.tsx'
import { MailboxProof } from './mailbox-proof.tsx'
import { ProofSteps } from './proof-steps.tsx'
import { RecoveryCodes } from './recovery-codes.tsx'

interface Props {
  session: Session
  /** The session is not held any more. */
  onDone: () => void
}

/** What a member sees whom the policy of the company holds, in place of all pages. */
export function Enrolment({ session, onDone }: Props) {
  const loaded = useLoaded(() => call('GET /auth/second-factors'))
  const [codes, setCodes] = useState<string[] | null>(null)
  const { value } = loaded
  const isOver = value !== null && !value.enrolmentRequired
  useEffect(() => {
    // Another tab has done it, or the policy was changed.
    if (isOver) onDone()
  }, [isOver])

  return (
    <>
      <Title>{codes ? 'Second factor added' : 'Your company requires a second factor'}</Title>
      <Waiting of={loaded} />
      {codes && (
        <Section id="added" title="Second factor added">
          <RecoveryCodes codes={codes} session={session} onStored={onDone} />
        </Section>
      )}
      {!codes && value?.enrolmentRequired && step(value)}
    </>
  )

  function step({ secondFactors, mailCodeRequired }: SecondFactors) {
    const { email } = session.user
    if (secondFactors.length === 0)
      return (
        <AddFirst
          email={email}
          needsMailCode={mailCodeRequired}
          onStale={loaded.reload}
          onAdded={(first) => (first ? setCodes(first) : onDone())}
        />
      )
    return (
      <Section id="prove" title="Confirm it's you">
        <p class="lead">You have a second factor. Use it once in this session to go on.</p>
        <ProofSteps email={email} onProven={onDone} />
      </Section>
    )
  }
}

interface AddFirstProps {
  email: string
  needsMailCode: boolean
  onStale: () => void
  onAdded: (recoveryCodes: string[] | undefined) => void
}

/** Adds the first factor of a member, after a mailed code. */
export function AddFirst({ email, needsMailCode, onStale, onAdded }: AddFirstProps) {
  const [proof, setProof] = useState<{ mailCode: string; begun: NewAuthenticator } | null>(null)
  const [fault, setFault] = useState<string | undefined>()

  /** To begin an app checks the code and does not use it up. So a wrong one is found before a device makes a passkey. */
  async function prove(mailCode: string): Promise<void> {
    setProof({ mailCode, begun: await call('POST /auth/second-factors/totp', { body: { mailCode } }) })
  }
  /** The code can have expired since: that is said where it is typed. */
  function refuse(error: unknown): never {
    if (error instanceof ApiError && error.fields['mailCode']) {
      setFault(
        `${error.fields['mailCode']}. If your device has made a passkey, make it again: the new one replaces it`,
      )
      setProof(null)
    }
    throw error
  }
  if (needsMailCode && !proof)
    return (
      <Section id="mailbox" title="Add your first second factor">
        <p class="lead">
          First we email a code to <strong>{email}</strong>, so that nobody who only knows your password can
          add one.
        </p>
        <MailboxProof use="factor" fault={fault} onStale={onStale} onGiven={prove} />
      </Section>
    )
  return (
    <Section id="add" title="Add your second factor" hasFocus={proof !== null}>
      <p class="lead">You need it each time you sign in. You can add others later.</p>
      <AddFactor {...proof} onAdded={onAdded} onRefused={refuse} />
    </Section>
  )
}
