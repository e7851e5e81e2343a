import { useId } from 'preact/hooks'

const ROLES: [role: string, can: string][] = [
  ['admin', 'everything, members too'],
  ['analyst', 'assesses and reviews'],
  ['developer', 'assesses by program'],
  ['viewer', 'only looks'],
]

/** A field that chooses a role. Servers are no admins. */
export function RoleSelect({ value = 'viewer', hasAdmin = true }: { value?: string; hasAdmin?: boolean }) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>Role</label>
      <select id={id} name="role">
        {ROLES.filter(([role]) => hasAdmin || role !== 'admin').map(([role, can]) => (
          <option key={role} value={role} selected={role === value}>
            {role} – {can}
          </option>
        ))}
      </select>
    </div>
  )
}
