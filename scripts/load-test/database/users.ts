import type pg from 'pg'

export interface User {
  id: string
  role: string
  permissions: string[]
}

const ANALYSTS = 1_000

/** Gives a company that has only its admin so many analysts with the admin's password; returns their emails. */
export async function insertAnalysts(
  connection: pg.Client,
  companyId: string,
  count = ANALYSTS,
): Promise<string[]> {
  const { rows } = await connection.query<{ email: string }>(
    `insert into users (company_id, user_id, email, name, role, assignments, status, password_hash,
       email_verified_at, created_at)
     select company_id, gen_random_uuid(), 'user' || n || '@load.example', name, 'analyst', assignments, status,
       password_hash, email_verified_at, created_at
     from users, generate_series(1, $2::int) n
     where company_id = $1
     returning email`,
    [companyId, count],
  )
  return rows.map(({ email }) => email)
}

export async function readUsers(connection: pg.Client, companyId: string): Promise<User[]> {
  const { rows } = await connection.query<User>(
    'select user_id as id, role, permissions from accounts where company_id = $1',
    [companyId],
  )
  return rows
}
