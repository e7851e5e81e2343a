import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, startChild } from '../kit/child.ts'
import { loginRequest } from '../kit/operations.ts'
import type { Postgres } from '../kit/postgres.ts'
import { peakMemoryOf, resetPeakMemory } from '../kit/processes.ts'
import type { Figures, Finding, Measured } from './aims.ts'
import type { AttackSetup } from './attack.ts'
import { FLOODS, type Flood } from './floods.ts'
import { prepareHonest, type Seen } from './honest.ts'
import { sendFrom } from './networks.ts'
import type { Counts } from './requests.ts'
import { growthBetween, measureTables, openTarget, type Target } from './target.ts'

const MAX_WARM_UP_SECONDS = 2
/** Before measuring, the flood reaches its full strength. */
const RISE_MS = 1_000
const MAX_SECONDS_BEFORE = 30

export async function runFlood(
  name: string,
  seconds: number,
  postgres: Postgres,
  cleanup: AsyncDisposableStack,
): Promise<Figures> {
  const flood = FLOODS[name]
  if (!flood) throw new Error(`unknown flood: ${name}`)
  const target = await openTarget(postgres, cleanup)
  await flood.prepare?.(target)
  const runHonest = await prepareHonest(target)
  await runHonest(Math.min(seconds, MAX_WARM_UP_SECONDS) * 1000)
  const secondsBefore = Math.min(seconds, MAX_SECONDS_BEFORE)
  console.error(`${name}: honest users without the flood, ${secondsBefore} s`)
  const before = await measure(target, () => runHonest(secondsBefore * 1000))
  console.error(`${name}: honest users with the flood, ${seconds} s`)
  let attack: Counts = {}
  const findings: Finding[] = []
  const during = await measure(target, async () => {
    const stopAttack = await startAttack(name, target, cleanup)
    await sleep(RISE_MS)
    const [seen, observed] = await Promise.all([runHonest(seconds * 1000), observe(flood, target, seconds)])
    attack = await stopAttack()
    findings.push(...observed)
    return seen
  })
  findings.push(await signInAfterwards(target))
  const { about, aims } = flood
  const figures = {
    flood: name,
    about,
    seconds: { before: secondsBefore, during: seconds },
    before,
    during,
    attack,
  }
  const judged = aims.map((aim) => aim({ ...figures, findings }))
  return { ...figures, findings: [...findings, ...judged] }
}

/** The returned function ends the attack. */
async function startAttack(
  flood: string,
  { url, admin: { companyId }, attacked }: Target,
  cleanup: AsyncDisposableStack,
): Promise<() => Promise<Counts>> {
  const child = startChild(join(import.meta.dirname, 'attack.ts'), {}, cleanup, cpus().length - 1)
  const victim = { url, companyId, members: attacked.map(({ email }) => email) }
  const setup: AttackSetup = { flood, victim }
  await ask(child, setup)
  return async () => (await ask(child, 'stop')) as Counts
}

/** If the service does not respond, that is a finding too. */
async function observe(flood: Flood, target: Target, seconds: number): Promise<Finding[]> {
  try {
    return (await flood.observe?.(target, seconds)) ?? []
  } catch (error) {
    return [{ what: 'the service responds during the flood', measured: String(error), isMet: false }]
  }
}

async function measure(target: Target, run: () => Promise<Seen[]>): Promise<Measured> {
  const tables = await measureTables(target.connection)
  resetPeakMemory(target.pid)
  const seen = await run()
  const peak = peakMemoryOf(target.pid)
  const written = growthBetween(tables, await measureTables(target.connection))
  return { seen, memoryMb: peak === null ? null : peak / 2 ** 20, written }
}

async function signInAfterwards({ url, admin }: Target): Promise<Finding> {
  const { status } = await sendFrom('203.0.113.99', url, loginRequest(admin))
  return { what: 'a sign-in after the flood returns 200', measured: String(status), isMet: status === 200 }
}
