import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { mergeVariables } from '../../src/config/files.ts'
import { faultsOf } from './production.ts'

/** A misspelled variable would silently leave the default in effect. */

test.for([
  ['DATABASE_URLL', 'DATABASE_URL'],
  ['DATABSE_URL', 'DATABASE_URL'],
  ['DATABAES_URL', 'DATABASE_URL'],
  ['database_url', 'DATABASE_URL'],
  ['IMIT_SIGN_IN_FAILURES', 'LIMIT_SIGN_IN_FAILURES'],
  // Two variables differ from this name by one letter.
  ['REFRESH_GACE_SECONDS', 'REFRESH_RACE_SECONDS or REFRESH_GRACE_SECONDS'],
] as const)('the unknown variable %s suggests %s (ASVS 13.1.2)', ([name, meant]) => {
  const fault = `  - ${name}: is unknown. Did you mean ${meant}?`
  expect(faultsOf({ [name]: 'c4n4ry' })).toEqual([fault])
  // Reported even if empty, and with other faults.
  const faults = faultsOf({ [name]: '', PORT: 'x' })
  expect(faults).toEqual([expect.stringContaining('PORT'), fault])
})

test('an unknown limit is reported once', () => {
  expect(faultsOf({ LIMIT_REFRES: '1/1' })).toEqual([
    expect.stringContaining('LIMIT_REFRES: is not a limit. The limits are LIMIT_'),
  ])
})

test('variables of platforms, shells, and other programs are ignored', () => {
  const others = [
    // Names under eight letters are not compared.
    ...['PORTS', 'HOSTS', 'PORT1', 'host', 'port', 'worker'],
    ...['HOSTNAME', 'PGDATABASE', 'XDG_DATA_DIRS', 'NODE_OPTIONS', 'NODE_NAME', 'npm_config_cache'],
    ...['KUBERNETES_SERVICE_HOST', 'DATABASE_PUBLIC_URL', 'DATABASE_URL_UNPOOLED', 'CF_PAGES_URL'],
    ...['RAILS_MASTER_KEY', 'MAIL_FROM_ADDRESS', 'RUST_LOG_LEVEL'],
  ]
  expect(faultsOf(Object.fromEntries(others.map((name) => [name, 'x'])))).toEqual([])
})

test('a Kubernetes service link that replaces a port causes a warning', () => {
  const { platformListen, opsListen, warnings } = loadConfig({
    OPA_PORT: 'tcp://10.96.0.7:8181',
    PLATFORM_PORT: 'tcp://10.96.0.7:3002',
    OPS_PORT: 'udp://10.96.0.8:3001',
  })
  expect([platformListen.port, opsListen.port]).toEqual([3002, 3001])
  expect(warnings).toEqual([
    expect.stringMatching(/^OPS_PORT=udp:\/\/10\.96\.0\.8:3001: .*Kubernetes/),
    expect.stringMatching(/^PLATFORM_PORT=tcp:\/\/10\.96\.0\.7:3002: .*Kubernetes/),
  ])
  // Kubernetes does not create these names.
  expect(faultsOf({ PORT: 'tcp://10.96.0.7:3000' })).toEqual([expect.stringContaining('PORT')])
  expect(faultsOf({ PUBLIC_URL: 'tcp://10.96.0.7:3000' })).toEqual([expect.stringContaining('PUBLIC_URL')])
})

test('a Kubernetes service link does not hide the variable in .env', () => {
  const link = { PLATFORM_PORT: 'tcp://10.96.0.7:3002', OPS_PORT: '4001', HOST: '::' }
  const variables = mergeVariables({ PLATFORM_PORT: '4002', OPS_PORT: '5001', PORT: '1' }, link)
  expect(variables).toMatchObject({ PLATFORM_PORT: '4002', OPS_PORT: '4001', HOST: '::', PORT: '1' })
})
