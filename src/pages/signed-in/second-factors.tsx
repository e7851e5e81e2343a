import { call } from '../api.ts'
import { Outcome, useChange } from '../outcome.tsx'
import { LinkButton, Section, Time } from '../parts.tsx'
import { useRead, useReload, Waiting } from '../queries.tsx'
import { AddFactor } from './add-factor.tsx'
import { keepCodes } from './recovery-codes.tsx'
import { Setting } from './setting.tsx'

export const KINDS = { passkey: 'passkey', totp: 'authenticator app' }

const FEW_CODES = 3
const REPLACED = 'The codes that you stored before no longer work.'

interface Props {
  onRecovered: (() => void) | undefined
}

export function SecondFactorSection({ onRecovered }: Props) {
  const loaded = useRead('GET /auth/second-factors')
  const reload = useReload()
  const change = useChange()
  const { data: factors } = loaded
  const { secondFactors = [], required = false, recoveryCodes: left = 0 } = factors ?? {}
  const hasNone = factors && secondFactors.length === 0
  const isLast = secondFactors.length === 1

  /** The other sessions ended. */
  function settle(): void {
    reload('GET /auth/second-factors')
    reload('GET /auth/sessions')
  }
  function add(): void {
    settle()
    onRecovered?.()
  }
  async function remove(id: string): Promise<string> {
    await call('DELETE /auth/second-factors/:id', { id })
    settle()
    return "Second factor removed. You're signed out everywhere else."
  }
  async function replace(): Promise<string> {
    await keepCodes(REPLACED, call('POST /auth/second-factors/recovery-codes'))
    settle()
    return REPLACED
  }
  const adding = factors && <AddFactor factors={factors} change={change} onAdded={add} />
  return (
    <Section id="second-factors" title="Second factors" aside={!hasNone && adding}>
      {hasNone && <p class="lead">You have none yet, so a stolen password is enough to sign in as you.</p>}
      <Waiting of={loaded} />
      <Outcome of={change} isOfForm />
      {hasNone && adding}
      {secondFactors.length > 0 && (
        <dl class="settings">
          {secondFactors.map(({ id, kind, name, createdAt, lastUsedAt }) => (
            <Setting
              key={id}
              label={name}
              what={name}
              change={change}
              value={
                <span class="quiet">
                  {name.toLowerCase() !== KINDS[kind] && `${KINDS[kind]}, `}
                  added <Time at={createdAt} />, {lastUsedAt ? 'last used ' : 'not used yet'}
                  {lastUsedAt && <Time at={lastUsedAt} />}
                </span>
              }
              act="Remove"
              isDanger
              {...(!(isLast && required) && { onSubmit: () => remove(id) })}
            >
              <p>
                {isLast
                  ? 'It is your last second factor: a stolen password will be enough to sign in as you. Your recovery codes stop working too.'
                  : "You can no longer sign in with it, and you're signed out everywhere else."}
              </p>
            </Setting>
          ))}
          <Setting
            label="Recovery codes"
            change={change}
            value={
              <>
                {left || 'none'} left{' '}
                <span class={left <= FEW_CODES ? 'error' : 'quiet'}>
                  {left <= FEW_CODES
                    ? 'Create new ones before you need them.'
                    : 'Use one if you lose your second factor.'}
                </span>
              </>
            }
            act="Replace"
            isDanger={left > 0}
            onSubmit={replace}
          >
            <p>You get ten new codes. Those that you stored stop working.</p>
          </Setting>
        </dl>
      )}
      {isLast && required && (
        <p class="quiet">Your company requires a second factor. To remove this one, add a new one first.</p>
      )}
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
