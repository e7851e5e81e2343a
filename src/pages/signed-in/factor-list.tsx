import { call } from '../api.ts'
import type { Change } from '../outcome.tsx'
import { Time } from '../parts.tsx'
import type { SecondFactors } from '../routes.ts'
import { keepCodes } from './recovery-codes.tsx'
import { Setting } from './setting.tsx'

type Factor = SecondFactors['secondFactors'][number]

export const KINDS: Record<Factor['kind'], string> = { passkey: 'passkey', totp: 'authenticator app' }

const FEW_CODES = 3
const REPLACED = 'The codes that you stored before no longer work.'

interface Props {
  factors: SecondFactors
  change: Change
  /** The other sessions ended. */
  onChanged: () => void
}

export function FactorList({ factors, change, onChanged }: Props) {
  const { secondFactors, required, recoveryCodes: left } = factors
  const isLast = secondFactors.length === 1
  async function remove(id: string): Promise<string> {
    await call('DELETE /auth/second-factors/:id', { id })
    onChanged()
    return "Second factor removed. You're signed out everywhere else."
  }
  async function replace(): Promise<string> {
    await keepCodes(REPLACED, call('POST /auth/second-factors/recovery-codes'))
    onChanged()
    return REPLACED
  }
  return (
    <>
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
      {isLast && required && (
        <p class="hint">Your company requires a second factor. To remove this one, add a new one first.</p>
      )}
    </>
  )
}
