import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const NEEDED = readFileSync(resolve(import.meta.dirname, '../../.ci/packages'), 'utf8')
  .trim()
  .split('\n')

/** Checks all packages before the first test. @throws if one is missing */
export default function setup(): void {
  const missing = NEEDED.filter((name) => !isInstalled(name))
  if (missing.length === 0) return
  const names = missing.join(' ')
  throw new Error(
    `These tests need Debian packages that are not installed: ${names}.\n` +
      `Install them with: sudo apt-get install --no-install-recommends ${names}`,
  )
}

function isInstalled(name: string): boolean {
  const { stdout } = spawnSync('dpkg-query', ['--status', name], { encoding: 'utf8' })
  return /^Status: \S+ \S+ installed$/m.test(stdout ?? '')
}
