import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** What is replaced where, so that the service breaks a promise. */
export interface Break {
  file: string
  fragment: string
  replacement: string
}

const PROJECT = resolve(import.meta.dirname, '../..')
const NEEDED = ['src', 'migrations', 'scripts', 'package.json', 'tsconfig.json']

/** A copy of the project with these fragments replaced, until the cleanup. @throws if one is not there once */
export async function copyBroken(breaks: readonly Break[], cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-broken-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))
  for (const name of NEEDED) await cp(join(PROJECT, name), join(folder, name), { recursive: true })
  await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  for (const { file, fragment, replacement } of breaks) {
    const text = await readFile(join(folder, file), 'utf8')
    const count = text.split(fragment).length - 1
    if (count !== 1) throw new Error(`${file} has the fragment ${count} times, and not once: ${fragment}`)
    await writeFile(
      join(folder, file),
      text.replace(fragment, () => replacement),
    )
  }
  return folder
}
