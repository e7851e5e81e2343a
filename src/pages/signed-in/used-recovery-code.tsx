import { LinkButton } from '../parts.tsx'
import { useRead } from '../queries.tsx'

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
