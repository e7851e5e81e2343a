import { createHash } from 'node:crypto'
import { ConfigError, loadConfig } from '../../src/config/config.ts'

/** An environment that production accepts, and the faults of others. */

export const randomKey = (seed: string) => createHash('sha256').update(seed).digest()
export const KEY = randomKey('one').toString('base64')

export const PRODUCTION = {
  NODE_ENV: 'production',
  DATABASE_URL: 'postgres://gatehouse@db.example/gatehouse?sslmode=verify-full',
  MASTER_KEYS: `first:${KEY}`,
  PUBLIC_URL: 'https://auth.example.com',
  SMTP_URL: 'smtps://gate:secret@smtp.example.com',
}

export function faultsOf(env: Record<string, string>): string[] {
  try {
    loadConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split('\n').slice(1)
    throw error
  }
  return []
}

export const namesOf = (env: Record<string, string>) =>
  faultsOf(env).map((fault) => /^ {2}- (\w+): \S/.exec(fault)?.[1])
