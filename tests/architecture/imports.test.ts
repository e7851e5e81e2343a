import { readdir, readFile } from 'node:fs/promises'
import { basename, dirname, join, normalize, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'

/** Which file may know which: the trust map and the layers hold only as long as imports run one way. */

const project = resolve(import.meta.dirname, '../..')

/**
 * Features, lowest first. One may use what stands on a lower step, by its service alone; tokens have no
 * service, so theirs are the claims and the plugin.
 */
const STEPS: Record<string, number> = {
  token: 0,
  mail: 0,
  company: 1,
  session: 2,
  'signing-secret': 2,
  ingest: 3,
  onboarding: 3,
}
const FACES: Record<string, string[]> = { token: ['claims.ts', 'plugin.ts'] }
const FACE = ['service.ts']
/** What folders that are no features may use; every folder may use itself. */
const GROUND: Record<string, string[]> = {
  'config.ts': [],
  'errors.ts': [],
  'system.ts': [],
  crypto: [],
  database: ['config.ts', 'errors.ts', 'system.ts'],
  http: ['config.ts', 'errors.ts', 'system.ts', 'crypto', 'database'],
}
/** Files that put the rest together. */
const ROOTS = ['app.ts', 'server.ts', 'local.ts']

interface Source {
  /** Path below src. */
  path: string
  /** Without comments. */
  code: string
  imports: Import[]
}

interface Import {
  from: string
  /** Path below src, or the name of a package. */
  to: string
  names: string
  isOurs: boolean
  isType: boolean
}

async function read(folder: string): Promise<Source[]> {
  const entries = await readdir(join(project, folder), { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  return await Promise.all(
    files.map(async (file) => {
      const full = join(file.parentPath, file.name)
      const path = relative(join(project, folder), full)
      const code = (await readFile(full, 'utf8'))
        .replace(/\/\*[\s\S]*?\*\//g, '')
        .replace(/^\s*\/\/.*$/gm, '')
      return { path, code, imports: importsOf(path, code) }
    }),
  )
}

function importsOf(path: string, code: string): Import[] {
  const statements = /^(?:import|export)\s+(type\s+)?([^'";]*?\bfrom\s+)?'([^']+)'/gm
  const dynamic = /\bimport\(\s*'([^']+)'/g
  return [
    ...[...code.matchAll(statements)].map(([, type, names, target]) => ({ type, names, target })),
    ...[...code.matchAll(dynamic)].map(([, target]) => ({ type: undefined, names: '', target })),
  ].map(({ type, names = '', target = '' }) => ({
    from: path,
    to: target.startsWith('.') ? normalize(join(dirname(path), target)) : target,
    names,
    isOurs: target.startsWith('.'),
    isType: type !== undefined,
  }))
}

const folderOf = (path: string) => path.split('/', 1)[0] ?? ''
const isFeature = (path: string) => folderOf(path) in STEPS
const isGuard = (path: string) => path.endsWith('-guard.ts')
const show = ({ from, to }: Import) => `${from} -> ${to}`

/** Inside a feature: routes use guards' helpers and services, services what they are made of, repositories nothing. */
function layerOf(path: string): number {
  if (isGuard(path)) return 3
  const layers: Record<string, number> = {
    'repository.ts': 0,
    'schemas.ts': 0,
    'service.ts': 2,
    'plugin.ts': 3,
    'routes.ts': 4,
  }
  return layers[basename(path)] ?? 1
}

const sources = await read('src')
const ours = sources.flatMap(({ imports }) => imports.filter(({ isOurs }) => isOurs))

/** Of a rule's matches, those outside the files where they belong. */
function outside(pattern: RegExp, allowed: (path: string) => boolean): string[] {
  return sources
    .filter(({ path, code }) => !allowed(path) && pattern.test(code))
    .map(({ path, code }) => `${path}: ${pattern.exec(code)?.[0]}`)
}

test('every file of src is read, with all of its imports', () => {
  expect(sources.length).toBeGreaterThan(40)
  const app = sources.find(({ path }) => path === 'app.ts')
  expect(app?.imports.map(({ to }) => to)).toEqual(
    expect.arrayContaining(['fastify', 'config.ts', 'session/routes.ts', 'ingest/signature-guard.ts']),
  )
  // None escapes by another spelling; migrations alone are found in their folder.
  for (const { path, code, imports } of sources) {
    const spelled = code.match(/\bfrom '|\bimport\('|^import '/gm) ?? []
    expect([path, imports.length]).toEqual([path, spelled.length])
  }
  expect(outside(/\bimport\s*\([^']/, (path) => path === 'database/migrate.ts')).toEqual([])
  const known = [...ROOTS, ...Object.keys(GROUND), ...Object.keys(STEPS)]
  expect(sources.map(({ path }) => folderOf(path)).filter((folder) => !known.includes(folder))).toEqual([])
})

describe('imports run one way:', () => {
  test('what everything stands on knows nothing of what stands on it', () => {
    const wrong = ours.filter(({ from, to }) => {
      const allowed = GROUND[folderOf(from)]
      return allowed && folderOf(to) !== folderOf(from) && !allowed.includes(folderOf(to))
    })
    expect(wrong.map(show)).toEqual([])
  })

  test('a feature uses another by its service alone, and only one on a lower step', () => {
    const wrong = ours.filter(({ from, to, isType }) => {
      if (!isFeature(from) || !isFeature(to) || folderOf(from) === folderOf(to)) return false
      const isLower = (STEPS[folderOf(to)] ?? 0) < (STEPS[folderOf(from)] ?? 0)
      const isFace = (FACES[folderOf(to)] ?? FACE).includes(basename(to)) || (isGuard(to) && isType)
      return !isLower || !isFace
    })
    expect(wrong.map(show)).toEqual([])
  })

  test('inside a feature routes use services, and services use repositories', () => {
    const wrong = ours.filter(
      ({ from, to }) =>
        isFeature(from) &&
        folderOf(from) === folderOf(to) &&
        layerOf(to) >= layerOf(from) &&
        // Helpers may use each other.
        !(layerOf(from) === 1 && layerOf(to) === 1),
    )
    expect(wrong.map(show)).toEqual([])
  })

  test('only app.ts puts routes behind guards', () => {
    const wrong = ours.filter(
      ({ from, to, isType }) =>
        from !== 'app.ts' &&
        (basename(to) === 'routes.ts' || isGuard(to)) &&
        // Routes may use a helper of their own feature's guard.
        !(isGuard(to) && (isType || folderOf(from) === folderOf(to))),
    )
    expect(wrong.map(show)).toEqual([])
    expect(ours.filter(({ from, to }) => from !== 'server.ts' && ROOTS.includes(to)).map(show)).toEqual([])
  })

  test('in no circle', () => {
    const targets = Map.groupBy(ours, ({ from }) => from)
    const circles: string[] = []
    const done = new Set<string>()
    function visit(path: string, trail: string[]): void {
      if (trail.includes(path)) circles.push([...trail.slice(trail.indexOf(path)), path].join(' -> '))
      if (done.has(path) || trail.includes(path)) return
      for (const { to } of targets.get(path) ?? []) visit(to, [...trail, path])
      done.add(path)
    }
    for (const { path } of sources) visit(path, [])
    expect(circles).toEqual([])
  })

  test('migrations know nothing of the code that runs after them', async () => {
    const imports = (await read('migrations')).flatMap((migration) => migration.imports)
    expect(imports.length).toBeGreaterThan(0)
    expect(imports.filter(({ to }) => to !== 'kysely').map(show)).toEqual([])
  })
})

describe('each thing has one place:', () => {
  const inDatabase = (path: string) => folderOf(path) === 'database'
  const isRepository = (path: string) => basename(path) === 'repository.ts'

  test('SQL is in repositories (ASVS 1.2.4)', () => {
    const statements = /\bsql\s*[`<.]|\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto|with)\(/
    expect(outside(statements, (path) => inDatabase(path) || isRepository(path))).toEqual([])
    expect(outside(/\bsql\s*\.\s*(?:raw|lit|id)\b/, (path) => inDatabase(path))).toEqual([])
    const drivers = sources.flatMap(({ imports }) => imports.filter(({ to }) => to === 'pg'))
    expect(drivers.filter(({ from }) => !inDatabase(from)).map(show)).toEqual([])
  })

  test('time and chance are in system.ts (ASVS 11.5.1)', () => {
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

  test('the environment and signals are in server.ts', () => {
    expect(outside(/\bprocess\s*\.\s*(?:env|on|once|exit)\b/, (path) => path === 'server.ts')).toEqual([])
  })

  test('requests and replies are no concern of services, repositories and what they stand on', () => {
    const wrong = sources.flatMap(({ path, imports }) =>
      /^(?:service|repository)\.ts$/.test(basename(path)) || inDatabase(path) || folderOf(path) === 'crypto'
        ? imports.filter(({ to }) => /^@?fastify\b/.test(to))
        : [],
    )
    expect(wrong.map(show)).toEqual([])
  })
})
