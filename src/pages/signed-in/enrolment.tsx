import type { UseQueryResult } from '@tanstack/preact-query'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { Section, StepTitle, Title } from '../parts.tsx'
import { useRead, Waiting } from '../queries.tsx'
import type { NewAuthenticator, SecondFactors, Session } from '../routes.ts'
import { AddFactor } from './add-factor.tsx'
import { MailboxProof, needsMailCode } from './mailbox-proof.tsx'
import { ProofSteps } from './proof-steps.tsx'

/** Replaces all pages for members who must add or use a second factor first. */
export function Enrolment({ session, onDone }: { session: Session; onDone: () => void }) {
  const loaded = useRead('GET /auth/second-factors')
  const change = useChange()
  const { email } = session.user
  // What was loaded before can be from a time without the requirement.
  const factors = loaded.isFetchedAfterMount ? loaded.data : undefined
  const isOver = factors?.enrolmentRequired === false
  useEffect(() => {
    // Done in a different tab, or the policy changed.
    if (isOver) onDone()
  }, [isOver])

  return (
    <>
      <Title>Your company requires a second factor</Title>
      <Waiting of={loaded} />
      {!factors || isOver ? null : factors.secondFactors.length > 0 ? (
        <Section id="prove" title="Confirm it's you">
          <p class="lead">To continue, use your second factor.</p>
          <ProofSteps email={email} onProven={onDone} />
        </Section>
      ) : (
        <Section id="add" title="Add your second factor">
          <p class="lead">You'll use it each time you sign in. You can add more later.</p>
          <Outcome of={change} isOfForm />
          <AddFirst email={email} loaded={loaded} change={change} onAdded={onDone} />
        </Section>
      )}
    </>
  )
}

interface AddFirstProps {
  email: string
  loaded: UseQueryResult<SecondFactors>
  change: Change
  onAdded: () => void
}

/** Adds a member's first second factor, after an emailed code. */
export function AddFirst({ email, loaded, change, onAdded }: AddFirstProps) {
  const [proof, setProof] = useState<{ mailCode: string; begun: NewAuthenticator } | null>(null)

  /** Starting an app's setup checks the code without consuming it, before a device creates a passkey. */
  async function prove(mailCode: string): Promise<void> {
    setProof({ mailCode, begun: await call('POST /auth/second-factors/totp', { body: { mailCode } }) })
  }
  /** The code may have expired in the meantime. */
  function refuse(error: unknown): never {
    if (!needsMailCode(error)) throw error
    setProof(null)
    throw new ApiError(
      error.code,
      'The emailed code has expired. If your device already created a passkey, create it again: the new one replaces it.',
    )
  }
  if (loaded.data?.mailCodeRequired && !proof)
    return (
      <>
        <p>
          To add one, enter a code that we email to <strong>{email}</strong>.
        </p>
        <MailboxProof use="factor" onStale={loaded.refetch} onGiven={prove} />
      </>
    )
  return (
    <>
      {proof && <StepTitle>Choose your second factor</StepTitle>}
      <AddFactor {...proof} isFirst change={change} onAdded={onAdded} onRefused={refuse} />
    </>
  )
}
