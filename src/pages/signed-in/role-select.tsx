import { useState } from 'preact/hooks'
import { Select } from '../form.tsx'
import { Options } from '../parts.tsx'
import { CAN, ROLES, type Role } from '../words.ts'

interface Props {
  value?: string
  /** Service accounts cannot be admins. */
  hasAdmin?: boolean
}

export function RoleSelect({ value = 'viewer', hasAdmin = true }: Props) {
  const [role, setRole] = useState(value)
  const roles = ROLES.filter((one) => hasAdmin || one !== 'admin')
  return (
    <Select label="Role" name="role" value={role} onChange={setRole} hint={CAN[role as Role]}>
      <Options of={Object.fromEntries(roles.map((one) => [one, one]))} />
    </Select>
  )
}
