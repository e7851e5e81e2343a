import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { type Change, Outcome, useChange } from '../outcome.tsx'
import { Section } from '../parts.tsx'
import { useRead, useReload, Waiting } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { AddFactor } from './add-factor.tsx'
import { Confirm } from './confirm.tsx'
import { AddFirst } from './enrolment.tsx'
import { FactorList } from './factor-list.tsx'
import { keepCodes } from './recovery-codes.tsx'

const FEW_CODES = 3

interface Props {
  session: Session
  onAdded: (() => void) | undefined
}

/** The user's own second factors and recovery codes. */
export function SecondFactorSection({ session, onAdded }: Props) {
  const loaded = useRead('GET /auth/second-factors')
  const reload = useReload()
  const change = useChange()
  const { data: factors } = loaded

  /** The other sessions ended. */
  function settle(): void {
    reload('GET /auth/second-factors')
    reload('GET /auth/sessions')
  }
  function add(): void {
    settle()
    onAdded?.()
  }
  const hasNone = factors?.secondFactors.length === 0
  return (
    <Section
      id="second-factors"
      title="Second factors"
      aside={factors && !hasNone && <AddFactor change={change} onAdded={add} />}
    >
      {hasNone && <p class="lead">You have none yet, so a stolen password is enough to sign in as you.</p>}
      <Waiting of={loaded} />
      <Outcome of={change} isOfForm />
      {factors && hasNone && (
        <AddFirst
          email={session.user.email}
          needsMailCode={factors.mailCodeRequired}
          change={change}
          onStale={loaded.refetch}
          onAdded={add}
        />
      )}
      {factors && !hasNone && (
        <FactorList factors={factors} change={change} onRemoved={settle}>
          <CodesLeft left={factors.recoveryCodes} change={change} onRenewed={settle} />
        </FactorList>
      )}
    </Section>
  )
}

interface CodesProps {
  left: number
  change: Change
  onRenewed: () => void
}

function CodesLeft({ left, change, onRenewed }: CodesProps) {
  const { run, isBusy, forget } = change
  const [isSure, setSure] = useState(false)
  async function replace(): Promise<void> {
    const done = 'The codes that you stored before no longer work.'
    await keepCodes(done, call('POST /auth/second-factors/recovery-codes'))
    onRenewed()
  }
  function begin(): void {
    forget()
    if (left > 0) setSure(true)
    else run(replace)
  }
  const isFew = left <= FEW_CODES
  return (
    <>
      <div>
        <strong>Recovery codes</strong> <span class="tag">{left || 'none'} left</span>
        <p class={isFew ? 'error' : 'quiet'}>
          {isFew
            ? 'Create new ones before you need them.'
            : 'Use one if you lose your second factor. New codes replace these.'}
        </p>
        {isSure && (
          <Confirm
            action="Replace the codes"
            onConfirm={replace}
            onCancel={() => setSure(false)}
            change={change}
          >
            The codes that you stored stop working.
          </Confirm>
        )}
      </div>
      <button type="button" class="small" aria-disabled={isBusy} onClick={begin}>
        Create new codes
      </button>
    </>
  )
}
