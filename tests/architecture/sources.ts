import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, normalize, relative, resolve } from 'node:path'

/** Reads the files of a project folder, with their imports. */

const project = resolve(import.meta.dirname, '../..')

export interface Source {
  /** Path below the folder. */
  path: string
  /** Without comments. */
  code: string
  imports: Import[]
}

export interface Import {
  from: string
  /** Path below the folder, or the name of a package. */
  to: string
  names: string
  isOurs: boolean
  isType: boolean
}

export async function read(folder: string): Promise<Source[]> {
  const entries = await readdir(join(project, folder), { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
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

export const show = ({ from, to }: Pick<Import, 'from' | 'to'>) => `${from} -> ${to}`
