import { existsSync } from 'node:fs'
import Chromium from '@sparticuz/chromium'
import { type Browser, chromium } from 'playwright-core'

/** A real browser: `CHROMIUM`, the machine's, or that of the npm package. */

const INSTALLED = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
]

export async function launchBrowser(): Promise<Browser> {
  const own = process.env['CHROMIUM'] ?? INSTALLED.find((path) => existsSync(path))
  const executablePath = own ?? (await Chromium.executablePath())
  const args = own ? FLAGS : [...Chromium.args, ...FLAGS]
  return await chromium.launch({ executablePath, args }).catch((cause) => {
    throw new Error('No browser starts: install Chromium, or set CHROMIUM to its path.', { cause })
  })
}
