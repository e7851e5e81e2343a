import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { request } from 'undici'
import { expect } from 'vitest'
import { runProgram } from '../../scripts/kit/run-program.ts'
import { openFolder } from '../support/cleanup.ts'

interface Options {
  /** In the language of tcpdump. */
  filter: string
  /** A URL of a server whose packets pass the filter. It gets a last request in plaintext, which the capture must show. */
  endAt: string
}

/** Records packets on all links while `act` runs. */
export async function capture({ filter, endAt }: Options, act: () => Promise<void>) {
  const end = randomUUID()
  const file = join(await openFolder(), 'packets')
  const options = [
    '--interface=any',
    '--immediate-mode',
    // In KiB. On a busy machine, many packets wait.
    '--buffer-size=262144',
    '-Z',
    'root',
    '-U',
    '-w',
    file,
  ]
  const tcpdump = spawn('tcpdump', [...options, filter], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  const listening = Promise.withResolvers<void>()
  tcpdump.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text
    if (said.includes('listening on')) listening.resolve()
  })
  const ended = once(tcpdump, 'close')
  try {
    await Promise.race([listening.promise, ended])
    await act()
    await request(`${endAt}/${end}`).catch(() => {})
    await expect.poll(async () => (await readFile(file)).includes(end)).toBe(true)
  } finally {
    tcpdump.kill('SIGINT')
    await ended
  }
  const bytes = await readFile(file)
  return {
    shows: (text: string) => bytes.includes(text),
    /** Packets that the filter matched and the buffer did not hold. */
    lost: Number(/(\d+) packets? dropped by kernel/.exec(said)?.[1] ?? Number.NaN),
    /** Whether a server sent data from this port. */
    async hasAnswersFrom(port: number): Promise<boolean> {
      const isData = `tcp src port ${port} and greater 200`
      return (await runProgram(['tcpdump', '-nn', '-c', '1', '-r', file, isData])) !== ''
    },
  }
}
