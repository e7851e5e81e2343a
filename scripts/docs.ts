import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { explain, readVariables } from '../src/process/startup.ts'
import { readOpenApi } from './kit/openapi.ts'

/**
 * Renders the OpenAPI document as one HTML page that works offline, in .data/interface.html or --out FILE. PUBLIC_URL,
 * lifetimes, and limits come from the environment and `.env`. Needs no database.
 */

/** The page can run its own script, and cannot reach any server. */
const POLICY = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  "script-src 'unsafe-inline'",
  'img-src data:',
  'font-src data:',
  'worker-src blob:',
].join('; ')

/** A page without external resources, or URLs of other sites. */
async function render(document: string, publicUrl: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-docs-'))
  try {
    const [source, page] = [join(folder, 'openapi.json'), join(folder, 'page.html')]
    await writeFile(source, document)
    const redocly = createRequire(import.meta.url).resolve('@redocly/cli/bin/cli.js')
    const args = [redocly, 'build-docs', source, '--output', page, '--inlineBundle']
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
    await promisify(execFile)(process.execPath, args, { env, cwd: folder })
    const html = await readFile(page, 'utf8')
    const own = [new URL(publicUrl).origin, 'http://www.w3.org']
    return html
      .replace('<head>', () => `<head>\n  <meta http-equiv="Content-Security-Policy" content="${POLICY}">`)
      .replace(/https?:\/\/[a-z\d-]+(?:\.[a-z\d-]+)+[\w/.#-]*/gi, (url) =>
        own.some((origin) => url.startsWith(origin)) ? url : '#',
      )
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function write(out: string): Promise<void> {
  const { api: document } = await readOpenApi(readVariables(process.env).variables)
  const { servers } = JSON.parse(document)
  const file = resolve(out)
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await writeFile(file, await render(document, servers[0].url))
  console.log(file)
}

const { values } = parseArgs({ options: { out: { type: 'string', default: '.data/interface.html' } } })
await write(values.out).catch((error) => {
  console.error(explain(error) ?? error)
  process.exitCode = 1
})
