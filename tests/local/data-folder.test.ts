import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { openTransport } from '../../src/mail/transport.ts'
import { openLocalMasterKey } from '../../src/process/local/data-folder.ts'
import { openFolder } from '../support/cleanup.ts'
import { createClock } from '../support/test-service.ts'

const about = { id: '0123456789', kind: 'password_changed', to: 'ada@acme.example', at: new Date(0) } as const
const message = { ...about, subject: 's', text: 't', html: 'h' }

test('other users cannot open anything in the data folder', async () => {
  const before = process.umask(0)
  onTestFinished(() => void process.umask(before))
  const home = await openFolder()
  const { mail } = loadConfig({})
  const steps = [
    (dataDir: string) => openLocalMasterKey(dataDir, createClock()),
    (dataDir: string) => openTransport({ mail, dataDir }).send(message, AbortSignal.timeout(5_000)),
  ]
  for (const [index, order] of [steps, steps.toReversed()].entries()) {
    const dataDir = join(home, `${index}`)
    for (const step of order) await step(dataDir)
    const made = await readdir(dataDir, { recursive: true })
    expect(made.length).toBe(4)
    for (const name of ['.', ...made]) {
      expect([name, (await stat(join(dataDir, name))).mode & 0o077]).toEqual([name, 0])
    }
  }
})
