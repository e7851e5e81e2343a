import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** A hash of the sources names the folder of a build: a service serves only its own pages, and no build replaces them. */

const PROJECT = resolve(import.meta.dirname, '../..')
export const PAGE_SOURCES = join(PROJECT, 'src/pages')
export const BUILDS = join(PROJECT, 'dist')
// package.json has the exact versions of packages.
const OTHER_SOURCES = [
  ...['scripts/build.ts', 'scripts/docs.ts', 'package.json', 'tsconfig.json'],
  // Parts of the guides.
  ...[
    'CHANGELOG.md',
    'src/errors.ts',
    'src/config/limits.ts',
    'src/audit/entry.ts',
    'src/company/account.ts',
    'src/http/openapi/codes.ts',
  ],
].map((path) => join(PROJECT, path))

export class PagesError extends Error {}

let found: Promise<string> | undefined

/** @throws PagesError if the pages are not built */
export function findPages(): Promise<string> {
  found ??= findBuild()
  return found
}

async function findBuild(): Promise<string> {
  const folder = await buildFolder()
  if (existsSync(folder)) return folder
  throw new PagesError(
    'The pages are not built. Run `npm ci --include=dev && npm run build`, or set PAGES_URL to the URL of your pages.',
  )
}

export async function buildFolder(): Promise<string> {
  const entries = await readdir(PAGE_SOURCES, { recursive: true })
  const names = entries.filter((name) => /\.(?:tsx?|css|json|md)$/.test(name)).sort()
  const hash = createHash('sha256')
  for (const path of [...names.map((name) => join(PAGE_SOURCES, name)), ...OTHER_SOURCES]) {
    const ofFile = createHash('sha256').update(await readFile(path))
    hash.update(ofFile.digest())
  }
  return join(BUILDS, hash.update(names.join()).digest('hex').slice(0, 16))
}
