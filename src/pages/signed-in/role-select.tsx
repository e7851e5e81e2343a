import { useId, useState } from 'preact/hooks'
import { CAN, ROLES, type Role } from '../words.ts'

export const isRole = (text: string | undefined): text is Role => ROLES.some((role) => role === text)

interface Props {
  value?: string
  /** Service accounts cannot be admins. */
  hasAdmin?: boolean
}

/** A role field that describes the selected role. */
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
      <p class="hint" id={`${id}-can`} aria-live="polite">
        {isRole(role) && CAN[role]}
      </p>
    </div>
  )
}
