import { call } from '../api.ts'
import { useLoaded } from '../data.tsx'
import { LinkButton } from '../parts.tsx'

/** For who has signed in with a recovery code: what they have lost still signs in. */
export function UsedRecoveryCode({ onClose }: { onClose: () => void }) {
  /** The focus was on the button, which is gone then. */
  function close(): void {
    onClose()
    document.querySelector('h1')?.focus()
  }
  const { value } = useLoaded(() => call('GET /auth/second-factors'))
  return (
    <p class="notice" role="status">
      {value && (
        <>
          You used a recovery code: {value.recoveryCodes || 'none'} left. If you lost your passkey or phone,
          first <a href="#second-factors">add a new one</a>, then remove the lost one.{' '}
          <LinkButton onClick={close}>Dismiss</LinkButton>
        </>
      )}
    </p>
  )
}
