import { useEffect, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Section, Title } from '../parts.tsx'
import { useRead, Waiting } from '../queries.tsx'
import type { NewAuthenticator, SecondFactors, Session } from '../routes.ts'
import { AddFactor } from './add-factor.tsx'
import { MailboxProof } from './mailbox-proof.tsx'
import { ProofSteps } from './proof-steps.tsx'
import { RecoveryCodes } from './recovery-codes.tsx'

interface Props {
  session: Session
  /** The policy is satisfied. */
  onDone: () => void
}

/** Replaces all pages for members who must add or use a second factor first. */
export function Enrolment({ session, onDone }: Props) {
  const loaded = useRead('GET /auth/second-factors')
  const [codes, setCodes] = useState<string[] | null>(null)
  // What was loaded before can be from a time without the requirement.
  const value = loaded.isFetchedAfterMount ? loaded.data : undefined
  const isOver = value?.enrolmentRequired === false
  useEffect(() => {
    // Done in a different tab, or the policy changed.
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
          onStale={loaded.refetch}
          onAdded={(first) => (first ? setCodes(first) : onDone())}
        />
      )
    return (
      <Section id="prove" title="Confirm it's you">
        <p class="lead">To continue, use your second factor.</p>
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

/** Adds a member's first second factor, after an emailed code. */
export function AddFirst({ email, needsMailCode, onStale, onAdded }: AddFirstProps) {
  const [proof, setProof] = useState<{ mailCode: string; begun: NewAuthenticator } | null>(null)
  const [fault, setFault] = useState<string | undefined>()

  /** Starting an app's setup checks the code without consuming it, before a device creates a passkey. */
  async function prove(mailCode: string): Promise<void> {
    setProof({ mailCode, begun: await call('POST /auth/second-factors/totp', { body: { mailCode } }) })
  }
  /** If the code has expired in the meantime, the error shows at its field. */
  function refuse(error: unknown): never {
    if (error instanceof ApiError && error.fields['mailCode']) {
      setFault(
        `${error.fields['mailCode']}. If your device already created a passkey, create it again: the new one replaces it`,
      )
      setProof(null)
    }
    throw error
  }
  if (needsMailCode && !proof)
    return (
      <Section id="mailbox" title="Add your first second factor">
        <p class="lead">
          Enter a code that we email to <strong>{email}</strong>. A stolen password isn't enough to add a
          second factor.
        </p>
        <MailboxProof use="factor" fault={fault} onStale={onStale} onGiven={prove} />
      </Section>
    )
  return (
    <Section id="add" title="Add your second factor" hasFocus={proof !== null}>
      <p class="lead">You'll use it each time you sign in. You can add more later.</p>
      <AddFactor {...proof} onAdded={onAdded} onRefused={refuse} />
    </Section>
  )
}
