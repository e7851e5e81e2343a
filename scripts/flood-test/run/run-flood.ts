import { setTimeout as sleep } from 'node:timers/promises'
import type { Postgres } from '../../kit/postgres.ts'
import { peakMemoryOf, resetPeakMemory } from '../../kit/processes.ts'
import type { Aim } from '../aims.ts'
import type { Figures, Finding } from '../figures.ts'
import type { Flood } from '../floods/flood.ts'
import { FLOODS } from '../floods/list.ts'
import { startAttack } from '../floods/start-attack.ts'
import type { Counts } from '../generators/attack.ts'
import type { Seen } from '../honest/kinds.ts'
import { type HonestLoad, startHonest } from '../honest/start-honest.ts'
import { type FloodTarget, openFloodTarget } from '../target/open-target.ts'
import { growthBetween, measureTables, scaleGrowth, type TableGrowth } from '../target/tables.ts'

export interface Plan {
  /** How the result is called, the floods that go on at the same time, and what has to hold then. */
  name: string
  floods: string[]
  aims: Aim[]
  floodSeconds: number
  idleSeconds: number
  serviceFolder: string | undefined
  isProxied: boolean
  workers: number
  postgres: Postgres
}

const WARM_UP_MS = 2_000
/** The floods are at full strength before anything is measured. */
const RISE_MS = 1_000

interface Measured {
  seen: Seen[]
  memoryMb: number | null
  growth: TableGrowth[]
}

/** Runs floods on a service of their own: first the honest load alone, then beside them. */
export async function runFlood(plan: Plan, cleanup: AsyncDisposableStack): Promise<Figures> {
  const floods = plan.floods.flatMap((name) => FLOODS[name] ?? [])
  const target = await openFloodTarget(plan.postgres, plan, cleanup)
  const { url, honest: people, signingKey } = target
  const setup = { url, people, signingKey: signingKey.toString('base64') }
  for (const flood of floods) await flood.prepare?.(target)
  const honest = await startHonest(setup, cleanup)
  await honest.run(WARM_UP_MS)
  console.error(`${plan.name}: the honest load alone, ${plan.idleSeconds} s`)
  const idle = await measure(target, () => honest.run(plan.idleSeconds * 1000))
  console.error(`${plan.name}: the flood beside it, ${plan.floodSeconds} s`)
  const { attack, findings, ...flooded } = await measureFlooded(plan, floods, target, honest, cleanup)
  const figures = {
    flood: plan.name,
    about: floods.length === 1 ? (floods[0]?.about ?? '') : `at once: ${plan.floods.join(', ')}`,
    idleSeconds: plan.idleSeconds,
    floodSeconds: plan.floodSeconds,
    idle: idle.seen,
    flooded: flooded.seen,
    attack,
    memoryMb: { idle: idle.memoryMb, flooded: flooded.memoryMb },
    tables: {
      flooded: flooded.growth,
      honest: scaleGrowth(idle.growth, plan.floodSeconds / plan.idleSeconds),
    },
    findings,
    verdicts: [],
  }
  return { ...figures, verdicts: plan.aims.flatMap((aim) => aim(figures)) }
}

async function measureFlooded(
  { floods: names, floodSeconds }: Plan,
  floods: Flood[],
  target: FloodTarget,
  honest: HonestLoad,
  cleanup: AsyncDisposableStack,
) {
  const { url, isProxied, admin, attacked } = target
  const members = attacked.map(({ email }) => email)
  let attack: Counts = {}
  const findings: Finding[] = []
  const measured = await measure(target, async () => {
    const victim = { url, isProxied, companyId: admin.companyId, members }
    const attackers = await startAttack({ floods: names, victim }, cleanup)
    await sleep(RISE_MS)
    const meanwhile = floods.map((flood) => observe(flood, target, floodSeconds))
    const seen = await honest.run(floodSeconds * 1000)
    findings.push(...(await Promise.all(meanwhile)).flat())
    attack = await attackers.stop()
    return seen
  })
  return { ...measured, attack, findings }
}

/** What cannot be observed because the service does not answer is a finding too. */
async function observe(flood: Flood, target: FloodTarget, seconds: number): Promise<Finding[]> {
  try {
    return (await flood.meanwhile?.(target, seconds)) ?? []
  } catch (error) {
    return [{ what: `${flood.about}: observed to the end`, value: String(error), unit: '', isMet: false }]
  }
}

async function measure(target: FloodTarget, run: () => Promise<Seen[]>): Promise<Measured> {
  const before = await measureTables(target.connection)
  resetPeakMemory(target.pid)
  const seen = await run()
  const peak = peakMemoryOf(target.pid)
  const growth = growthBetween(before, await measureTables(target.connection))
  return { seen, memoryMb: peak === null ? null : peak / 2 ** 20, growth }
}
