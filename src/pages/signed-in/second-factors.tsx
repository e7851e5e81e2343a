import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { Section } from '../parts.tsx'
import { useRead, useReload, Waiting } from '../queries.tsx'
import type { Session } from '../routes.ts'
import { AddFactor } from './add-factor.tsx'
import { Confirm } from './confirm.tsx'
import { AddFirst } from './enrolment.tsx'
import { FactorList } from './factor-list.tsx'
import { RecoveryCodes } from './recovery-codes.tsx'

const FEW_CODES = 3

interface Props {
  session: Session
  onAdded: (() => void) | undefined
}

/** The user's own second factors and recovery codes. */
export function SecondFactorSection({ session, onAdded }: Props) {
  const loaded = useRead('GET /auth/second-factors')
  const reload = useReload()
  const [codes, setCodes] = useState<string[] | null>(null)
  const [done, setDone] = useState<string | null>(null)

  function settle(words: string | null, newCodes: string[] | null = null): void {
    setDone(words)
    setCodes(newCodes)
    reload('GET /auth/second-factors')
    // The other sessions ended.
    reload('GET /auth/sessions')
  }
  const { data: value } = loaded
  const add = (first: string[] | undefined) => {
    settle("Second factor added. You're signed out everywhere else.", first ?? null)
    onAdded?.()
  }
  const needsMailCode = value?.mailCodeRequired === true && !codes
  return (
    <>
      <Section id="second-factors" title="Second factors">
        <p class="lead">
          With a second factor, a stolen password isn't enough to sign in. You sign in with your password and
          one of these, or with only a passkey.
        </p>
        <Waiting of={loaded} />
        {value && (
          <FactorList
            factors={value}
            onBegin={() => setDone(null)}
            onRemoved={() => settle("Second factor removed. You're signed out everywhere else.")}
          >
            <CodesLeft left={value.recoveryCodes} onRenewed={(renewed) => settle(null, renewed)} />
          </FactorList>
        )}
        <p role="status" class="done">
          {done}
        </p>
        {codes && <RecoveryCodes codes={codes} session={session} onStored={() => setCodes(null)} />}
        {value && !codes && !needsMailCode && (
          <>
            {value.secondFactors.length > 0 && <h3>Add another second factor</h3>}
            <AddFactor onBegin={() => setDone(null)} onAdded={add} />
          </>
        )}
      </Section>
      {needsMailCode && (
        <AddFirst email={session.user.email} needsMailCode onStale={loaded.refetch} onAdded={add} />
      )}
    </>
  )
}

function CodesLeft({ left, onRenewed }: { left: number; onRenewed: (codes: string[]) => void }) {
  const change = useChange()
  const { run, isBusy } = change
  const [isSure, setSure] = useState(false)
  async function replace(): Promise<void> {
    const { recoveryCodes } = await call('POST /auth/second-factors/recovery-codes')
    setSure(false)
    onRenewed(recoveryCodes)
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
        <Outcome of={change} />
        {isSure && (
          <Confirm action="Replace the codes" onConfirm={replace} onCancel={() => setSure(false)}>
            The codes that you stored stop working.
          </Confirm>
        )}
      </div>
      <button
        type="button"
        class="small"
        aria-disabled={isBusy}
        onClick={() => (left > 0 ? setSure(true) : run(replace))}
      >
        Create new codes
      </button>
    </>
  )
}
