import { call } from '../api.ts'
import { useLoaded } from '../data.tsx'

/** For who has signed in with a recovery code: what they have lost still signs in. */
export function UsedRecoveryCode() {
  const { value } = useLoaded(() => call('GET /auth/second-factors'))
  return (
    <p class="notice" role="status">
      {value && (
        <>
          You used a recovery code: {value.recoveryCodes || 'none'} left. If you lost your passkey or phone,{' '}
          <a href="#second-factors">remove it here</a> and add a new one.
        </>
      )}
    </p>
  )
}
