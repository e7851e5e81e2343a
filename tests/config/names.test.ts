import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config.ts'
import { mergeVariables } from '../../src/config-names.ts'
import { faultsOf } from './production.ts'

/** A misspelt variable would leave its default in force, and nobody would notice. */

test.for([
  ['DATABASE_URLL', 'DATABASE_URL'],
  ['DATABSE_URL', 'DATABASE_URL'],
  ['DATABAES_URL', 'DATABASE_URL'],
  ['database_url', 'DATABASE_URL'],
  ['IMIT_SIGN_IN_FAILURES', 'LIMIT_SIGN_IN_FAILURES'],
  // Two variables are one letter apart.
  ['REFRESH_GACE_SECONDS', 'REFRESH_RACE_SECONDS or REFRESH_GRACE_SECONDS'],
] as const)('the unknown variable %s suggests %s (ASVS 13.1.2)', ([name, meant]) => {
  const fault = `  - ${name}: is not known; did you mean ${meant}?`
  expect(faultsOf({ [name]: 'c4n4ry' })).toEqual([fault])
  // Also where the right one is there, and beside other faults.
  const faults = faultsOf({ [name]: '', PORT: 'x' })
  expect(faults).toEqual([expect.stringContaining('PORT'), fault])
})

test('an unknown limit is reported once', () => {
  expect(faultsOf({ LIMIT_REFRES: '1/1' })).toEqual([
    expect.stringContaining('LIMIT_REFRES: is no limit; there are'),
  ])
})

test('variables of platforms, shells, and other programs are ignored', () => {
  const others = [
    // Shorter than eight letters.
    ...['PORTS', 'HOSTS', 'PORT1', 'host', 'port', 'worker'],
    ...['HOSTNAME', 'PGHOST', 'PGDATABASE', 'LOGNAME', 'XDG_DATA_DIRS', 'LIMITS', 'UV_CACHE_DIR'],
    ...['NODE_OPTIONS', 'NODE_VERSION', 'NODE_NAME', 'NODE_EXTRA_CA_CERTS', 'NODE_COMPILE_CACHE'],
    ...['npm_config_cache', 'npm_config_registry', 'npm_package_name', 'npm_lifecycle_event'],
    ...['KUBERNETES_PORT', 'KUBERNETES_SERVICE_HOST', 'KUBERNETES_PORT_443_TCP_ADDR'],
    ...['POSTGRES_URL', 'DATABASE_PUBLIC_URL', 'DATABASE_URL_UNPOOLED', 'TEST_DATABASE_URL', 'REDIS_URL'],
    ...['CF_PAGES_URL', 'RENDER_EXTERNAL_URL', 'WEB_CONCURRENCY', 'DYNO', 'FLY_APP_NAME', 'K_SERVICE'],
    ...['RAILS_MASTER_KEY', 'MAIL_FROM_ADDRESS', 'RUST_LOG_LEVEL', 'MALLOC_ARENA_MAX', 'NOTIFY_SOCKET'],
  ]
  expect(faultsOf(Object.fromEntries(others.map((name) => [name, 'x'])))).toEqual([])
})

test('service links of Kubernetes and Docker are ignored', () => {
  const links = { OPA_PORT: 'tcp://10.96.0.7:8181', GPS_PORT: 'udp://10.96.0.8:2947' }
  expect(faultsOf(links)).toEqual([])
  expect(faultsOf({ OPA_PORT: '3001' })).toEqual(['  - OPA_PORT: is not known; did you mean OPS_PORT?'])
})

test('a variable that Kubernetes sets as a service link causes a warning', () => {
  const { platformListen, opsListen, warnings } = loadConfig({
    PLATFORM_PORT: 'tcp://10.96.0.7:3002',
    OPS_PORT: 'udp://10.96.0.8:3001',
  })
  expect([platformListen.port, opsListen.port]).toEqual([3002, 3001])
  expect(warnings).toEqual([
    expect.stringMatching(/^OPS_PORT=udp:\/\/10\.96\.0\.8:3001: .*Kubernetes/),
    expect.stringMatching(/^PLATFORM_PORT=tcp:\/\/10\.96\.0\.7:3002: .*Kubernetes/),
  ])
  // No service makes these of its name.
  expect(faultsOf({ PORT: 'tcp://10.96.0.7:3000' })).toEqual([expect.stringContaining('PORT')])
  expect(faultsOf({ PUBLIC_URL: 'tcp://10.96.0.7:3000' })).toEqual([expect.stringContaining('PUBLIC_URL')])
})

test('a service link does not hide the variable in .env', () => {
  const link = { PLATFORM_PORT: 'tcp://10.96.0.7:3002', OPS_PORT: '4001', HOST: '::' }
  const variables = mergeVariables({ PLATFORM_PORT: '4002', OPS_PORT: '5001', PORT: '1' }, link)
  expect(variables).toMatchObject({ PLATFORM_PORT: '4002', OPS_PORT: '4001', HOST: '::', PORT: '1' })
})
