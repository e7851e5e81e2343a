import { Outcome, useChange } from '../outcome.tsx'
import { LinkButton, Section } from '../parts.tsx'
import { useRead, useReload, Waiting } from '../queries.tsx'
import { AddFactor } from './add-factor.tsx'
import { FactorList } from './factor-list.tsx'
import type { PageProps } from './shell.tsx'

export function SecondFactorSection({ session, onRecovered }: Pick<PageProps, 'session' | 'onRecovered'>) {
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
    onRecovered?.()
  }
  const hasNone = factors?.secondFactors.length === 0
  const adding = factors && (
    <AddFactor email={session.user.email} factors={factors} change={change} onAdded={add} />
  )
  return (
    <Section id="second-factors" title="Second factors" aside={!hasNone && adding}>
      {hasNone && <p class="lead">You have none yet, so a stolen password is enough to sign in as you.</p>}
      <Waiting of={loaded} />
      <Outcome of={change} isOfForm />
      {hasNone && adding}
      {factors && !hasNone && <FactorList factors={factors} change={change} onChanged={settle} />}
    </Section>
  )
}

/** Shown after a sign-in with a recovery code, because a lost second factor still works. */
export function UsedRecoveryCode({ onClose }: { onClose: () => void }) {
  /** Moves the focus, because the button disappears. */
  function close(): void {
    onClose()
    document.querySelector('h1')?.focus()
  }
  const { data } = useRead('GET /auth/second-factors')
  return (
    <p class="notice" role="status">
      {data && (
        <>
          You used a recovery code: {data.recoveryCodes || 'none'} left. If you lost your passkey or phone,
          first <a href="#second-factors">add a new one</a>, then remove the lost one.{' '}
          <LinkButton onClick={close}>Dismiss</LinkButton>
        </>
      )}
    </p>
  )
}
