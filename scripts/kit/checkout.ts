import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** The commit of 1.1.0. Change it with each release. */
export const LAST_RELEASE = '2ca0415'

const PROJECT = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Undefined if the history does not have the commit. */
export async function findCommit(name: string): Promise<string | undefined> {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`]
  const found = await run('git', args, { cwd: PROJECT }).catch(() => null)
  return found?.stdout.trim()
}

/** Writes the files of a commit into a folder of `parent`. */
export async function checkOut(commit: string, parent: string): Promise<string> {
  const [folder, archive] = [join(parent, 'checkout'), join(parent, 'checkout.tar')]
  await mkdir(folder)
  await run('git', ['archive', `--output=${archive}`, commit], { cwd: PROJECT })
  await run('tar', ['-xf', archive, '-C', folder])
  const [own, its] = await Promise.all(
    [PROJECT, folder].map((place) => readFile(join(place, 'package-lock.json'), 'utf8')),
  )
  // With the same lock file, the packages are the same too.
  if (own === its) await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  else await run('npm', ['ci', '--prefix', folder], { cwd: folder })
  return folder
}

const COPIED = [
  'src',
  'tests',
  'migrations',
  'scripts',
  'deploy',
  'package.json',
  'tsconfig.json',
  'README.md',
  'CHANGELOG.md',
]

/** The copy can be changed, and exists until the cleanup. */
export async function copyProject(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-copy-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))
  for (const name of COPIED) await cp(join(PROJECT, name), join(folder, name), { recursive: true })
  await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}
