import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import { build } from 'esbuild'

/** Makes the files of the web application in memory when the service starts, so that nobody has to build it. */

const SOURCES = ['main.tsx', 'style.css'].map((name) => join(import.meta.dirname, '../pages', name))
const TYPES: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
}

/** A file in the encodings that browsers take. */
export interface StaticFile {
  type: string
  plain: Buffer
  gzip: Buffer
  br: Buffer
}

export interface Bundle {
  /** The page, which is the same at every path of the application. */
  page: StaticFile
  /** The other files by path. A name changes with its content. */
  assets: Map<string, StaticFile>
}

let bundle: Promise<Bundle> | undefined

/** It depends on nothing but the source, so a process makes it once. */
export function loadBundle(): Promise<Bundle> {
  bundle ??= makeBundle()
  return bundle
}

async function makeBundle(): Promise<Bundle> {
  const { outputFiles } = await build({
    entryPoints: SOURCES,
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
    const extension = path.split('.').at(-1) ?? ''
    const hash = createHash('sha256').update(contents).digest('base64url').slice(0, 16)
    return { path: `/assets/${hash}.${extension}`, extension, contents: Buffer.from(contents) }
  })
  const files = named.map(async ({ path, extension, contents }) => {
    return [path, await toFile(extension, contents)] as const
  })
  const pathOf = (extension: string) => named.find((file) => file.extension === extension)?.path ?? ''
  const page = pageOf({ script: pathOf('js'), style: pathOf('css') })
  return { page: await toFile('html', Buffer.from(page)), assets: new Map(await Promise.all(files)) }
}

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
<link rel="stylesheet" href="${style}">
<script type="module" src="${script}"></script>
</head>
<body><div id="app"></div><noscript>This page needs JavaScript.</noscript></body>
</html>
`
}

const [compressBrotli, compressGzip] = [promisify(brotliCompress), promisify(gzip)]

async function toFile(extension: string, plain: Buffer): Promise<StaticFile> {
  const type = TYPES[extension]
  if (type === undefined) throw new Error(`there is no type for files named .${extension}`)
  return { type, plain, br: await compressBrotli(plain), gzip: await compressGzip(plain) }
}
