import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

/** In an outage, a broken link or a log line that does not exist costs operators time. */

const PROJECT = resolve(import.meta.dirname, '../..')
const guide = await readFile(join(PROJECT, 'deploy/README.md'), 'utf8')
const rules = await readFile(join(PROJECT, 'deploy/alerts.yaml'), 'utf8')
const [, runbooks = ''] = /^## Runbooks$(.*?)^## /ms.exec(guide) ?? []

const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')

test('each alert links to its own runbook, and the reverse', () => {
  const alerts = [...rules.matchAll(/^ {6}- alert: (\w+)$/gm)].map(([, name = '']) => name)
  const links = [...rules.matchAll(/^ {10}runbook_url: (\S+)$/gm)].map(([, url]) => url)
  const headings = [...runbooks.matchAll(/^### (.+)$/gm)].map(([, heading]) => heading)
  expect(alerts.length).toBeGreaterThan(10)
  expect(links).toEqual(alerts.map((name) => `deploy/README.md#${anchorOf(name)}`))
  expect(headings).toEqual(alerts)
})

test('runbooks quote log messages of the service', async () => {
  const files = await readdir(join(PROJECT, 'src'), { recursive: true })
  const sources = files.filter((file) => file.endsWith('.ts'))
  const texts = await Promise.all(sources.map((file) => readFile(join(PROJECT, 'src', file), 'utf8')))
  const source = texts.join('\n')
  const quoted = [...runbooks.matchAll(/"([^"]+)"/g)].map(([, message = '']) => message)
  expect(quoted.length).toBeGreaterThan(4)
  // In mail/sender.ts, the last word of the message is computed.
  const isLogged = (message: string) =>
    source.includes(`'${message}'`) || source.includes(`\`${message.replace(/\w+$/, '$')}{end}\``)
  expect(quoted.filter((message) => !isLogged(message))).toEqual([])
})

test('links of the guide lead to existing files and headings', async () => {
  for (const [, file = '', anchor] of guide.matchAll(/\]\(([^)#]*)(?:#([^)]+))?\)/g)) {
    const target = file === '' ? guide : await readFile(join(PROJECT, 'deploy', file), 'utf8')
    const anchors = [...target.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading))
    if (anchor) expect(anchors).toContain(anchor)
  }
})
