import { createHash } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { BUILDS, buildFolder } from '../src/http/built-pages.ts'
import { runProgram } from './run-program.ts'

/**
 * Makes the archive of a release in dist/: what runs the service, its lock file and the built pages, at the commit that is
 * checked out. The same commit gives the same bytes. Unpacked, it is started by `npm ci --omit=dev && npm start`.
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
  'scripts',
  'src',
  'tsconfig.json',
]

async function main(): Promise<void> {
  process.chdir(PROJECT)
  const changed = await runProgram(['git', 'status', '--porcelain', '--', ...PARTS])
  if (changed) throw new Error(`A release is a commit. Commit these first, or undo them:\n${changed}`)
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
  const hash = createHash('sha256').update(await readFile(`${tar}.gz`))
  console.log(`${hash.digest('hex')}  dist/${basename(tar)}.gz`)
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
