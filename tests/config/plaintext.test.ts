import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { faultsOf, namesOf, PRODUCTION } from './production.ts'

/** In production, only connections within the machine can omit TLS (ASVS 12.3.1, 12.3.3). */

const SMTP = 'smtp://gate:secret@mail.example.com:587'

const withUrl = (DATABASE_URL: string) => ({ ...PRODUCTION, DATABASE_URL })

test.for([
  'postgres://u:p@db.example/name?sslmode=verify-full',
  'postgres://u:p@127.0.0.1:5432/name?sslmode=disable',
  'postgres://u:p@[::1]:5432/name',
  'postgres:///name?host=/var/run/postgresql',
  'postgres://u@%2Fvar%2Frun%2Fpostgresql/name',
])('DATABASE_URL can be %s', (url) => {
  expect(faultsOf(withUrl(url))).toEqual([])
})

test.for([
  'postgres://u:p@db.example/name',
  'postgres://u:p@10.0.0.5/name?sslmode=require',
  'postgres://u:p@db.example/name?sslmode=no-verify',
  'postgres://u:p@db.example/name?sslmode=verify-full&sslmode=disable',
  'postgres://u:p@localhost/name?host=db.example',
  'postgres://u:p@localhost.example/name',
])('DATABASE_URL can be %s only with ALLOW_PLAINTEXT', (url) => {
  const fault = /DATABASE_URL: must have sslmode=verify-full .*ALLOW_PLAINTEXT names database/
  expect(faultsOf(withUrl(url))).toEqual([expect.stringMatching(fault)])
  expect(namesOf({ ...withUrl(url), ALLOW_PLAINTEXT: 'smtp' })).toEqual(['DATABASE_URL'])
  expect(faultsOf({ ...withUrl(url), ALLOW_PLAINTEXT: 'smtp, database' })).toEqual([])
  expect(faultsOf({ DATABASE_URL: url })).toEqual([])
})

test('DATABASE_URL without a host uses PGHOST', () => {
  expect(namesOf({ ...withUrl('postgres:///name'), PGHOST: 'db.example' })).toEqual(['DATABASE_URL'])
  expect(namesOf({ ...withUrl('postgres:///name'), PGHOST: '/var/run/postgresql' })).toEqual([])
})

test('SMTP_URL can turn TLS off only locally or with ALLOW_PLAINTEXT', () => {
  const withUrl = (SMTP_URL: string) => ({ ...PRODUCTION, SMTP_URL })
  expect(faultsOf(withUrl(SMTP))).toEqual([])
  expect(faultsOf(withUrl('smtp://localhost:25?requireTLS=false'))).toEqual([])
  const remote = withUrl(`${SMTP}?requireTLS=false`)
  const fault = /SMTP_URL: must not have requireTLS=false .*ALLOW_PLAINTEXT names smtp/
  expect(faultsOf(remote)).toEqual([expect.stringMatching(fault)])
  expect(namesOf({ ...remote, ALLOW_PLAINTEXT: 'database' })).toEqual(['SMTP_URL'])
  expect(faultsOf({ ...remote, ALLOW_PLAINTEXT: 'smtp' })).toEqual([])
})

test('ALLOW_PLAINTEXT causes a warning', () => {
  expect(loadConfig(PRODUCTION).warnings).toEqual([])
  expect(loadConfig({ ...PRODUCTION, ALLOW_PLAINTEXT: 'database,smtp' }).warnings).toEqual([
    expect.stringMatching(/^ALLOW_PLAINTEXT names database/),
    expect.stringMatching(/^ALLOW_PLAINTEXT names smtp/),
  ])
})

test('ALLOW_PLAINTEXT rejects unknown words', () => {
  for (const words of ['true', 'all', 'database;smtp', 'Database'])
    expect(namesOf({ ALLOW_PLAINTEXT: words })).toEqual(['ALLOW_PLAINTEXT'])
})
