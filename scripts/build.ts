import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import type * as esbuild from 'esbuild'
import { BUILDS, buildFolder, PAGE_SOURCES } from '../src/http/built-pages.ts'

/**
 * Builds the pages into a folder of dist/, named by a hash of their sources, unless it exists. With --before-start (see
 * scripts/start), a failed build is not an error: a service that needs the pages reports it.
 */

/** Running services can still serve earlier builds. */
const KEPT = 3

async function readMark(): Promise<string> {
  const source = await readFile(join(PAGE_SOURCES, 'mark.tsx'), 'utf8')
  const [, shapes] = /<svg [^>]*>(.*)<\/svg>/s.exec(source) ?? []
  if (shapes === undefined) throw new Error('mark.tsx has no <svg>.')
  return shapes.replace(/>\s+</g, '><').trim()
}

/** The mark as the tab icon, with fixed colors. */
function iconOf(mark: string): string {
  const shapes = mark
    .replace('<rect', '<rect fill="#1d4ed8"')
    .replace('<path', '<path fill="none" stroke="#fff" stroke-width="3"')
  const image = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${shapes}</svg>`
  return `data:image/svg+xml,${encodeURIComponent(image)}`
}

interface Head {
  title: string
  description: string
  script: Entry
  styles: Entry
}

type Entry = 'main.tsx' | 'docs.ts' | 'signed-in/pages.tsx' | 'styles/index.css' | 'styles/docs.css'

/** The beginning of a page. Colors: --paper in tokens.css. */
function renderHead(
  { title, description, script, styles }: Head,
  metafile: esbuild.Metafile,
  mark: string,
): string {
  const path = entryIn(metafile, script)
  const { imports = [], cssBundle } = metafile.outputs[path] ?? {}
  const sheets = [entryIn(metafile, styles), ...(cssBundle === undefined ? [] : [cssBundle])]
  const chunks = imports.filter(({ kind }) => kind === 'import-statement')
  return `<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" media="(prefers-color-scheme: light)" content="#ffffff">
<meta name="theme-color" media="(prefers-color-scheme: dark)" content="#14171c">
<meta name="referrer" content="no-referrer">
<meta name="description" content="${description}">
<title>${title}</title>
<link rel="icon" href="${iconOf(mark)}">
${sheets.map((sheet) => `<link rel="stylesheet" href="/${sheet}">`).join('')}
${chunks.map((chunk) => `<link rel="modulepreload" href="/${chunk.path}">`).join('')}
<script type="module" src="/${path}"></script>`
}

/** Loads what the page of a signed-in user needs, at the same time as its script. */
function renderEarly(metafile: esbuild.Metafile, head: string): string {
  const pages = entryIn(metafile, 'signed-in/pages.tsx')
  const { imports = [] } = metafile.outputs[pages] ?? {}
  const parts = imports.flatMap(({ kind, path }) => (kind === 'import-statement' ? path : []))
  const links = [pages, ...parts]
    .filter((path) => !head.includes(path))
    .map((path) => `<link rel="modulepreload" href="/${path}">`)
  return `<link rel="preload" href="/api/auth/session" as="fetch" crossorigin>${links.join('')}`
}

/**
 * `watch` runs first, before the others can fail. Until the script shows something, there is a card, or the outline of a page
 * behind sign-in.
 */
function renderApp(head: string, watch: string, mark: string): string {
  const brand = `<p class="brand"><svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">${mark}</svg> gatehouse</p>`
  return `<!doctype html>
<html lang="en">
<head>
<script src="/${watch}"></script>
${head}
</head>
<body>
<div id="app"></div>
<main class="card starting">
${brand}
<noscript><p>This page needs JavaScript. Turn it on in your browser, then reload the page.</p></noscript>
<p class="waiting">Loading… If nothing appears, reload the page.</p>
</main>
<div class="outline starting">
<header class="bar">${brand}</header>
<main class="wide"><p class="hidden" role="status">Loading…</p><div></div><div class="part"></div><div class="part"></div></main>
</div>
</body>
</html>
`
}

/** The files by path. Except for pages, the path changes with the content. */
async function bundle(build: typeof esbuild.build): Promise<Map<string, Uint8Array>> {
  // Hashes depend on paths, so paths must not depend on where the project is.
  const project = dirname(BUILDS)
  const options = {
    absWorkingDir: project,
    outdir: project,
    entryNames: 'assets/[hash]',
    chunkNames: 'assets/[hash]',
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    target: 'es2023',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'silent',
  } as const
  const entries = (...names: (Entry | 'watch.ts')[]) => names.map((name) => join(PAGE_SOURCES, name))
  const loaded = await build({
    ...options,
    entryPoints: entries('main.tsx', 'docs.ts', 'styles/index.css', 'styles/docs.css'),
    format: 'esm',
    splitting: true,
  })
  const watching = await build({ ...options, entryPoints: entries('watch.ts'), format: 'iife' })
  const mark = await readMark()
  const headOf = (head: Head) => renderHead(head, loaded.metafile, mark)
  const app = headOf({
    title: 'gatehouse',
    description:
      "Sign in to gatehouse and manage your account, your company's members, and its signing secret.",
    script: 'main.tsx',
    styles: 'styles/index.css',
  })
  const { renderDocs } = await import('./docs.ts')
  const docs = await renderDocs(
    (head) => headOf({ ...head, script: 'docs.ts', styles: 'styles/docs.css' }),
    mark,
  )
  const files = [...loaded.outputFiles, ...watching.outputFiles].map(
    ({ path, contents }) => [relative(project, path), contents] as const,
  )
  const watch = entryIn(watching.metafile, 'watch.ts')
  const pageOf = (head: string) => Buffer.from(renderApp(head, watch, mark))
  return new Map<string, Uint8Array>([
    ...files,
    ...docs,
    ['index.html', pageOf(app)],
    ['signed-in.html', pageOf(renderEarly(loaded.metafile, app) + app)],
  ])
}

function entryIn({ outputs }: esbuild.Metafile, end: Entry | 'watch.ts'): string {
  const [path] = Object.entries(outputs).find(([, { entryPoint }]) => entryPoint?.endsWith(`/${end}`)) ?? []
  if (path === undefined) throw new Error(`esbuild wrote no output for ${end}`)
  return path
}

const ENCODERS = [
  ['.br', promisify(brotliCompress)],
  ['.gz', promisify(gzip)],
] as const

/** Safe in several processes: the folder gets its name when it is complete. */
async function write(files: Map<string, Uint8Array>, folder: string): Promise<void> {
  const unfinished = join(BUILDS, `unfinished-${randomBytes(6).toString('hex')}`)
  try {
    for (const [name, contents] of files) {
      const file = join(unfinished, name)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, contents)
      for (const [end, encode] of ENCODERS) await writeFile(`${file}${end}`, await encode(contents))
    }
    await rename(unfinished, folder)
  } catch (error) {
    // A different process was faster.
    if (!existsSync(folder)) throw error
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

async function removeOldest(): Promise<void> {
  const names = (await readdir(BUILDS)).filter((name) => /^[0-9a-f]{16}$/.test(name))
  const builds = names.map(async (name) => {
    const path = join(BUILDS, name)
    const { mtimeMs = 0 } = (await stat(path).catch(() => null)) ?? {}
    return { path, mtimeMs }
  })
  const latestFirst = (await Promise.all(builds)).sort((one, other) => other.mtimeMs - one.mtimeMs)
  for (const { path } of latestFirst.slice(KEPT)) await rm(path, { recursive: true, force: true })
}

async function buildIfNeeded(): Promise<void> {
  const folder = await buildFolder()
  if (existsSync(folder)) return
  const { build } = await import('esbuild')
  await write(await bundle(build), folder)
  await removeOldest()
  console.error(`Built the pages into ${folder}.`)
}

const isBeforeStart = process.argv.includes('--before-start')
await buildIfNeeded().catch((error) => {
  const isPruned = error.code === 'ERR_MODULE_NOT_FOUND'
  if (!isBeforeStart) process.exitCode = 1
  else if (isPruned) return
  console.error(`The pages were not built: ${isPruned ? 'run `npm ci --include=dev` first.' : error.message}`)
})
