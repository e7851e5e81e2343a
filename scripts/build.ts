import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import type * as esbuild from 'esbuild'
import { BUILDS, buildFolder, PAGE_SOURCES } from '../src/http/built-pages.ts'

/**
 * Builds the pages into a folder of dist/ that is named by their sources, unless it is there. With --before-start (see
 * scripts/start) a build that cannot be made is no failure: a service that needs the pages says so itself.
 */

/** Services that run may serve earlier builds. */
const KEPT = 3

/** A gate. */
const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1d4ed8"/><path d="M7 26V13a9 9 0 0 1 18 0v13M16 5v21M7 18h18" fill="none" stroke="#fff" stroke-width="3"/></svg>',
)}`

function pageOf({ script, style }: { script: string; style: string }): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>gatehouse</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="/${style}">
<script type="module" src="/${script}"></script>
</head>
<body><div id="app"></div><noscript>This page needs JavaScript.</noscript></body>
</html>
`
}

/** The files by name. That of each but the page changes with its content. */
async function bundle(build: typeof esbuild.build): Promise<Map<string, Uint8Array>> {
  const { outputFiles } = await build({
    entryPoints: ['main.tsx', 'style.css'].map((name) => join(PAGE_SOURCES, name)),
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2023',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: '/',
    logLevel: 'silent',
  })
  const named = outputFiles.map(({ path, contents }) => {
    const hash = createHash('sha256').update(contents).digest('base64url').slice(0, 16)
    return [`assets/${hash}.${path.split('.').at(-1)}`, contents] as const
  })
  const nameOf = (end: string) => named.find(([name]) => name.endsWith(end))?.[0] ?? ''
  const page = pageOf({ script: nameOf('.js'), style: nameOf('.css') })
  return new Map([...named, ['index.html', Buffer.from(page)]])
}

const ENCODERS = [
  ['.br', promisify(brotliCompress)],
  ['.gz', promisify(gzip)],
] as const

/** Several processes can do this at a time: the folder gets its name when all is in it. */
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
    // Another process was faster.
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
  console.error(`The pages are in ${folder}`)
}

const isBeforeStart = process.argv.includes('--before-start')
await buildIfNeeded().catch((error) => {
  const isPruned = error.code === 'ERR_MODULE_NOT_FOUND'
  if (!isBeforeStart) process.exitCode = 1
  else if (isPruned) return
  console.error(`The pages were not built: ${isPruned ? 'run `npm ci --include=dev` first.' : error.message}`)
})
