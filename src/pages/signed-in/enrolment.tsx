import { useEffect } from 'preact/hooks'
import { Outcome, useChange } from '../outcome.tsx'
import { Section, Title } from '../parts.tsx'
import { useRead, Waiting } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { AddFactor } from './add-factor.tsx'
import { ProofSteps } from './proof-steps.tsx'

/** Replaces all pages for members who must add or use a second factor first. */
export function Enrolment({ session, onEnrolled }: { session: Session; onEnrolled: () => void }) {
  const loaded = useRead('GET /auth/second-factors')
  const change = useChange()
  // What was loaded before can be from a time without the requirement.
  const factors = loaded.isFetchedAfterMount ? loaded.data : undefined
  const isOver = factors?.enrolmentRequired === false
  useEffect(() => {
    // Done in a different tab, or the policy changed.
    if (isOver) onEnrolled()
  }, [isOver])

  return (
    <>
      <Title>Your company requires a second factor</Title>
      <Waiting of={loaded} />
      {!factors || isOver ? null : factors.secondFactors.length > 0 ? (
        <Section id="prove" title="Confirm it's you">
          <p class="lead">To continue, use your second factor.</p>
          <ProofSteps email={session.user.email} onProven={onEnrolled} />
        </Section>
      ) : (
        <Section id="add" title="Add your second factor">
          <p class="lead">You'll use it each time you sign in. You can add more later.</p>
          <Outcome of={change} isOfForm />
          <AddFactor factors={factors} change={change} onAdded={onEnrolled} />
        </Section>
      )}
    </>
  )
}
