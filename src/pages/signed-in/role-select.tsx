import { useId, useState } from 'preact/hooks'
import { CAN, isRole, ROLES } from '../words.ts'

interface Props {
  value?: string
  /** Service accounts cannot be admins. */
  hasAdmin?: boolean
}

export function RoleSelect({ value = 'viewer', hasAdmin = true }: Props) {
  const [role, setRole] = useState(value)
  const id = useId()
  return (
    <div class="field">
      <label for={id}>Role</label>
      <select
        id={id}
        name="role"
        value={role}
        aria-describedby={`${id}-can`}
        onChange={({ currentTarget }) => setRole(currentTarget.value)}
      >
        {ROLES.filter((one) => hasAdmin || one !== 'admin').map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
      <p class="quiet" id={`${id}-can`} aria-live="polite">
        {isRole(role) && CAN[role]}
      </p>
    </div>
  )
}
