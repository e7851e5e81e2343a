import { createHash } from 'node:crypto'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import lock from '../package-lock.json' with { type: 'json' }
import { BUILDS, buildFolder, PAGE_SOURCES } from '../src/http/built-pages.ts'
import { runProgram } from './kit/run-program.ts'

/**
 * Writes a release of the checked-out commit into dist/. The same commit produces the same bytes. The archive contains the
 * service, its lock file, and the built pages. Unpacked, `npm ci --omit=dev && npm start` starts it. A second file lists its
 * packages (SBOM, CycloneDX).
 */

const PROJECT = join(import.meta.dirname, '..')
const PARTS = [
  '.env.example',
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'deploy',
  'migrations',
  'package-lock.json',
  'package.json',
  // Without test programs and examples.
  ...['admin', 'admin.ts', 'build.ts', 'docs.ts', 'start', 'with-node'].map((name) => `scripts/${name}`),
  'src',
  'tsconfig.json',
]

async function main(): Promise<void> {
  process.chdir(PROJECT)
  const changed = await runProgram(['git', 'status', '--porcelain', '--', ...PARTS])
  if (changed)
    throw new Error(`A release needs a commit without changes. Commit or undo these first:\n${changed}`)
  await runProgram([process.execPath, 'scripts/build.ts'])
  const name = `gatehouse-${manifest.version}`
  const tar = join(BUILDS, `${name}.tar`)
  const committedAt = (await runProgram(['git', 'log', '-1', '--format=%ct'])).trim()
  await runProgram(['git', 'archive', `--prefix=${name}/`, `--output=${tar}`, 'HEAD', ...PARTS])
  const sameForAll = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', `--mtime=@${committedAt}`]
  const prefixed = [`--transform=s,^,${name}/,`, '--mode=u=rwX,go=rX']
  const pages = relative(PROJECT, await buildFolder())
  await runProgram(['tar', '--append', `--file=${tar}`, ...sameForAll, ...prefixed, pages])
  await rm(`${tar}.gz`, { force: true })
  await runProgram(['gzip', '--no-name', '--best', tar])
  const list = join(BUILDS, `${name}.cdx.json`)
  await writeFile(list, `${JSON.stringify(await listPackages(committedAt), null, 2)}\n`)
  for (const file of [`${tar}.gz`, list]) {
    const hash = createHash('sha256').update(await readFile(file))
    console.log(`${hash.digest('hex')}  dist/${basename(file)}`)
  }
}

interface Sbom {
  serialNumber?: string
  metadata: { timestamp: string; component: { name: string } }
  components: { 'bom-ref': string; name: string }[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

/**
 * Packages that production installs, and packages in the pages. `npm sbom --omit=dev` leaves out packages that a development
 * dependency needs too, such as pg.
 */
async function listPackages(committedAt: string): Promise<Sbom> {
  const npm = ['npm', 'sbom', '--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only']
  const all: Sbom = JSON.parse(await runProgram(npm))
  const installed = Object.entries<{ version: string; dev?: boolean }>(lock.packages).flatMap(
    ([path, { version, dev }]) => (dev ? [] : [`${path.split('node_modules/').at(-1)}@${version}`]),
  )
  const built = await namesInPages()
  const components = all.components.filter(
    (each) => installed.includes(each['bom-ref']) || built.has(each.name),
  )
  const root = `${manifest.name}@${manifest.version}`
  const refs = new Set([root, ...components.map((each) => each['bom-ref'])])
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => refs.has(each)) }))
  // This optional number is random.
  delete all.serialNumber
  all.metadata.timestamp = new Date(Number(committedAt) * 1000).toISOString()
  // By default, this is the folder's name.
  all.metadata.component.name = manifest.name
  return { ...all, components, dependencies }
}

async function namesInPages(): Promise<Set<string>> {
  const names = new Set<string>()
  for (const file of await readdir(PAGE_SOURCES, { recursive: true })) {
    if (!/\.tsx?$/.test(file)) continue
    const text = await readFile(join(PAGE_SOURCES, file), 'utf8')
    for (const [, name = ''] of text.matchAll(/from '((?:@[^/']+\/)?[^./'][^/']*)/g)) names.add(name)
  }
  return names
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
