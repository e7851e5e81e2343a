import { basename } from 'node:path'
import { expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import lock from '../../package-lock.json' with { type: 'json' }
import { read, show } from './sources.ts'

/** Checks which file imports which. The trust map and the rooms require imports in one direction. Biome finds circles. */

/** The rooms of src: folders and files, in groups from the top. A room imports only itself and lower groups. */
const GROUPS = [
  ['process'],
  ['app.ts'],
  ['pages'],
  ['operator', 'onboarding', 'sign-in'],
  ['member', 'ingest'],
  ['platform', 'second-factor', 'signing-secret'],
  ['session', 'guide.ts'],
  ['company', 'one-time-token'],
  ['audit', 'mail'],
  ['http'],
  ['token', 'limits'],
  ['edge', 'database', 'crypto'],
  ['config'],
  ['errors.ts', 'system.ts'],
  // package.json
  ['..'],
]

/** Folders whose files have no layers. All others are features. */
const PARTS = ['crypto', 'config', 'database', 'http', 'limits', 'process', 'pages']

const folderOf = (path: string) => path.split('/', 1)[0] ?? ''
const nameOf = (path: string) => basename(path, '.ts')
const groupOf = (path: string) => GROUPS.findIndex((rooms) => rooms.includes(folderOf(path)))
const isFeature = (path: string) => path.includes('/') && !PARTS.includes(folderOf(path))
const isGuard = (path: string) => /[/-]guards?\.ts$/.test(path)
const isRoutes = (path: string) => /(?:^|[/-])routes\.ts$/.test(path)
const isRepository = (path: string) => /(?:^|[/-])(?:repository|fragments)\.ts$/.test(path)
const isPlugin = (path: string) => nameOf(path) === 'plugin'

/** Files that every layer of a feature can import: the types of its rows, and its texts. */
const MODELS = [
  'session/session.ts',
  'company/account.ts',
  'audit/entry.ts',
  'mail/letters.ts',
  'mail/notices.ts',
  'member/service-password-schemas.ts',
]

/** Layers: models, repositories, services, guards and plugins, routes. None imports from a higher one. */
function layerOf(path: string): number {
  if (MODELS.includes(path) || nameOf(path) === 'schemas') return 0
  if (isRepository(path)) return 1
  if (isRoutes(path)) return 4
  return isGuard(path) || isPlugin(path) ? 3 : 2
}

const isPage = ({ path }: { path: string }) => folderOf(path) === 'pages'
const everything = await read('src')
const pages = everything.filter(isPage)
const sources = everything.filter((source) => !isPage(source))
const ours = sources.flatMap(({ imports }) => imports.filter(({ isOurs }) => isOurs))
const between = (rooms: (from: string, to: string) => boolean) =>
  ours.filter(({ from, to }) => rooms(folderOf(from), folderOf(to)))

/** Matches of a pattern in files that must not have them. */
function outside(pattern: RegExp, allowed: (path: string) => boolean): string[] {
  return sources
    .filter(({ path, code }) => !allowed(path) && pattern.test(code))
    .map(({ path, code }) => `${path}: ${pattern.exec(code)?.[0]}`)
}

test('every file of src has a room and all imports are read', () => {
  expect(sources.length).toBeGreaterThan(100)
  const app = sources.find(({ path }) => path === 'app.ts')
  expect(app?.imports.map(({ to }) => to)).toEqual(
    expect.arrayContaining(['http/context.ts', 'session/routes.ts', 'ingest/signature-guard.ts']),
  )
  // Catches imports in a spelling that `read` does not know. Only migrations have a computed path.
  for (const { path, code, imports } of sources) {
    const spelled = code.match(/\bfrom '|\bimport\('|^import '/gm) ?? []
    expect([path, imports.length]).toEqual([path, spelled.length])
  }
  expect(outside(/\bimport\s*\([^']/, (path) => path === 'database/migrate.ts')).toEqual([])
  expect(sources.map(({ path }) => path).filter((path) => groupOf(path) < 0)).toEqual([])
})

test('a room imports only from itself and lower groups', () => {
  const wrong = ours.filter(({ from, to }) => folderOf(from) !== folderOf(to) && groupOf(from) >= groupOf(to))
  expect(wrong.map(show)).toEqual([])
})

test('no layer of a feature imports from a higher one', () => {
  const within = between((from, to) => from === to).filter(({ from }) => isFeature(from))
  const wrong = within.filter(({ from, to, isType }) => {
    const [above, below] = [layerOf(from), layerOf(to)]
    // Files of one layer can import each other, and every layer can import a type from a guard.
    return below > above && !(isType && isGuard(to))
  })
  expect(wrong.map(show)).toEqual([])
  expect(
    between((from, to) => from === to)
      .filter(({ to }) => isRoutes(to))
      .map(show),
  ).toEqual([])
})

test('only app.ts imports routes and guards', () => {
  const wrong = ours.filter(
    ({ from, to, isType }) => from !== 'app.ts' && (isRoutes(to) || (isGuard(to) && !isType)),
  )
  expect(wrong.map(show)).toEqual([])
  expect(ours.filter(({ from, to }) => to === 'app.ts' && from !== 'process/serving.ts').map(show)).toEqual(
    [],
  )
})

test('pages import only types of the server, which imports only their paths', () => {
  expect(pages.length).toBeGreaterThan(10)
  const outwards = pages.flatMap(({ imports }) =>
    imports.filter(({ to, isOurs, isType }) => isOurs && folderOf(to) !== 'pages' && !isType),
  )
  expect(outwards.map(show)).toEqual([])
  expect(ours.filter(({ to }) => folderOf(to) === 'pages').map(show)).toEqual(['app.ts -> pages/paths.ts'])
  expect(pages.find(({ path }) => path === 'pages/paths.ts')?.imports).toEqual([])
  const packages = pages.flatMap(({ imports }) =>
    imports.filter(({ isOurs, isType }) => !isOurs && !isType).map(({ to }) => to),
  )
  // Only the build needs them, not the running service.
  expect(new Set(packages)).toEqual(
    new Set(['preact', 'preact/hooks', 'preact-iso/router', '@tanstack/preact-query', 'lean-qr']),
  )
})

test('migrations import only kysely', async () => {
  const imports = (await read('migrations')).flatMap((migration) => migration.imports)
  expect(imports.length).toBeGreaterThan(0)
  expect(imports.filter(({ to }) => to !== 'kysely').map(show)).toEqual([])
})

const inDatabase = (path: string) => folderOf(path) === 'database'

test('SQL is only in repositories and fragments (ASVS 1.2.4)', () => {
  const statements = /\bsql\s*[`<.]|\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto|with)\(/
  expect(outside(statements, (path) => inDatabase(path) || isRepository(path))).toEqual([])
  const raw = /\bsql\s*\.\s*(?:raw|lit|id)\b/
  expect(outside(raw, (path) => path === 'database/columns.ts')).toEqual([])
  const drivers = sources.flatMap(({ imports }) => imports.filter(({ to }) => to === 'pg'))
  const isLocal = (path: string) => path === 'process/local/postgres.ts'
  expect(drivers.filter(({ from }) => !inDatabase(from) && !isLocal(from)).map(show)).toEqual([])
})

test('time and randomness are only in system.ts (ASVS 11.5.1)', () => {
  const isSystem = (path: string) => path === 'system.ts'
  expect(outside(/\bDate\.now\b|\bnew Date\(\s*\)|\bDate\(\s*\)/, isSystem)).toEqual([])
  expect(outside(/\bMath\.random\b|\brandomUUID\b|\bgetRandomValues\b|\brandomInt\b/, () => false)).toEqual(
    [],
  )
  const random = sources.flatMap(({ imports }) =>
    imports.filter(({ to, names }) => /^(node:)?crypto$/.test(to) && /random/i.test(names)),
  )
  expect(random.map(show)).toEqual(['system.ts -> node:crypto'])
})

test('the server evaluates no text, and starts no program but Postgres (ASVS 1.2.5, 1.3.2)', () => {
  expect(outside(/\beval\(|\bFunction\(|\bnode:vm\b/, () => false)).toEqual([])
  const programs = sources.flatMap(({ imports }) => imports.filter(({ to }) => /\bchild_process$/.test(to)))
  expect(programs.map(show)).toEqual(['process/local/postgres.ts -> node:child_process'])
})

test('only the look-up of breached passwords sends HTTP requests (ASVS 1.3.6)', () => {
  const asks = /\bfetch\(|\bhttps?\.(?:get|request)\(|'undici'|'node:(?:https|http2)'/
  expect(outside(asks, (path) => path === 'crypto/password-policy.ts')).toEqual([])
})

test('no pattern is built from input (ASVS 1.2.9)', () => {
  // These are built from constants, routes, and the name of the user who owns the process.
  const built = ['http/body.ts', 'http/email-address.ts', 'http/not-found.ts', 'process/local/postgres.ts']
  expect(outside(/\bRegExp\(/, (path) => built.includes(path))).toEqual([])
})

test('hashes are SHA-256, and secrets are compared in constant time (ASVS 11.2.4, 11.4.1)', () => {
  // SHA-1 is the format of the look-up of breached passwords, and protects nothing.
  const hashes = /\b(?:createHash|createHmac|hash)\(\s*['"`](?!sha256'|')/
  expect(outside(hashes, (path) => path === 'crypto/password-policy.ts')).toEqual([])
  // These compare public bytes, and digests of what the caller sent.
  const compared = ['crypto/passkeys.ts', 'sign-in/reauthentication.ts']
  expect(outside(/\.equals\(|\bBuffer\.compare\(/, (path) => compared.includes(path))).toEqual([])
})

test('only the log stream and the entry point write output (ASVS 16.2.3)', () => {
  const writers = ['http/log-stream.ts', 'process/server.ts']
  expect(outside(/\bconsole\.|(?<!\.)\bprocess\.std(?:out|err)\b/, (path) => writers.includes(path))).toEqual(
    [],
  )
})

test('pages create no markup from text, and keep nothing on global objects (ASVS 3.2.3)', () => {
  const unsafe =
    /(?:inner|outer|dangerouslySetInner)HTML|insertAdjacentHTML|document\.write|\bwindow\b|\b(?:document|globalThis)\.(?!title\b)\w+ = /
  expect(
    pages.flatMap(({ path, code }) => (unsafe.test(code) ? [`${path}: ${unsafe.exec(code)}`] : [])),
  ).toEqual([])
})

test('each package has an exact version and a digest (ASVS 15.2.4)', () => {
  const direct = { ...manifest.dependencies, ...manifest.devDependencies }
  expect(Object.values(direct).filter((version) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))).toEqual([])
  const { '': ours, ...packages } = lock.packages
  expect(ours.dependencies).toEqual(manifest.dependencies)
  expect(Object.keys(packages).length).toBeGreaterThan(100)
  const loose = Object.entries(packages).filter(([, one]) => !/^sha512-/.test(Object(one).integrity))
  expect(loose.map(([name]) => name)).toEqual([])
})

test('the environment and signals are only in process/server.ts', () => {
  expect(outside(/\bprocess\s*\.\s*(?:env|on|once|exit)\b/, (path) => path === 'process/server.ts')).toEqual(
    [],
  )
})

test('services and repositories do not import Fastify', () => {
  const isOfHttp = (path: string) =>
    ['edge', 'http', 'app.ts'].includes(folderOf(path)) ||
    /^(?:limits\/(?:client|memory)|session\/credential)\.ts$/.test(path) ||
    isRoutes(path) ||
    isGuard(path) ||
    isPlugin(path) ||
    nameOf(path) === 'schemas'
  const wrong = sources.flatMap(({ path, imports }) =>
    isOfHttp(path) ? [] : imports.filter(({ to }) => /^@?fastify\b/.test(to)),
  )
  expect(wrong.map(show)).toEqual([])
  expect(sources.filter(({ path }) => isFeature(path) && !isOfHttp(path)).length).toBeGreaterThan(30)
})
