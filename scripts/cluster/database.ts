import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Agent, type Dispatcher, request } from 'undici'
import { UsageError } from '../kit/command.ts'
import { runProgram } from '../kit/run-program.ts'
import { type Machine, nameOf, openMachine, patroniOf, postgresOf } from './machine.ts'
import { MACHINES } from './network.ts'

interface Member {
  name: string
  role: string
  state: string
}

const Members = TypeCompiler.Compile(
  Type.Object({
    members: Type.Array(Type.Object({ name: Type.String(), role: Type.String(), state: Type.String() })),
  }),
)

/** The standbys of a primary. */
const Primary = TypeCompiler.Compile(
  Type.Object({
    replication: Type.Array(Type.Object({ application_name: Type.String(), state: Type.String() })),
  }),
)

const ROLES = resolve(import.meta.dirname, '../../deploy/roles.sql')
const PROBE_MS = 2_000
const NO_STANDBY = 412
const PATIENCE_MS = 30_000
const POLL_MS = 500

type Passwords = Record<'owner' | 'service' | 'operator', string>

export const newPassword = () => randomBytes(24).toString('base64url')

/** Three machines with Postgres. Patroni makes one the primary. */
export async function openDatabase(programs: string, folder: string, cleanup: AsyncDisposableStack) {
  const secrets = { superuser: newPassword(), replication: newPassword(), restApi: newPassword() }
  const machines: Machine[] = []
  for (const n of MACHINES) machines.push(await openMachine(n, { folder, programs, secrets }, cleanup))
  for (const machine of machines) await machine.heal()
  const caFile = join(folder, 'ca.pem')
  const dispatcher = new Agent({ connect: { ca: await readFile(caFile) } })
  cleanup.defer(() => dispatcher.destroy())

  /** From Patroni; empty if no machine responds. */
  async function members(): Promise<Member[]> {
    for (const n of MACHINES) {
      const answer = await getJson(`${patroniOf(n)}/cluster`, dispatcher).catch(() => null)
      if (Members.Check(answer)) return answer.members
    }
    return []
  }

  function leaderOf(known: Member[]): number | undefined {
    const leader = known.find(({ role }) => role === 'leader')?.name
    return MACHINES.find((each) => nameOf(each) === leader)
  }

  /** The number of its machine. @throws UsageError without a primary */
  async function primary(): Promise<number> {
    const leader = leaderOf(await members())
    if (!leader) throw new UsageError('There is no primary.')
    return leader
  }

  return {
    /** The certificate of the CA that issues those of all machines. */
    caFile,
    machines,
    members,
    primary,
    /** Whether there are a primary, a synchronous standby, and a second standby. */
    async isComplete(): Promise<boolean> {
      const running = (await members()).filter(({ state }) => state === 'running' || state === 'streaming')
      const roles = running.map(({ role }) => role).sort()
      const leader = leaderOf(running)
      if (!leader || roles.join() !== 'leader,replica,sync_standby') return false
      // An old primary runs before Patroni rewinds it. If a second machine fails until then, Patroni cannot.
      const answer = await getJson(`${patroniOf(leader)}/patroni`, dispatcher).catch(() => null)
      const streaming = Primary.Check(answer)
        ? answer.replication.filter(({ state }) => state === 'streaming').map((one) => one.application_name)
        : []
      return running.every(({ name, role }) => role === 'leader' || streaming.includes(name))
    },
    async switchOver(): Promise<void> {
      for (const deadline = performance.now() + PATIENCE_MS; ; await sleep(POLL_MS)) {
        const leader = await primary()
        const { statusCode, body } = await request(`${patroniOf(leader)}/switchover`, {
          dispatcher,
          method: 'POST',
          headers: { authorization: `Basic ${Buffer.from(`patroni:${secrets.restApi}`).toString('base64')}` },
          body: JSON.stringify({ leader: nameOf(leader) }),
        })
        const text = await body.text()
        if (statusCode === 200) return
        // When a machine comes back, Patroni takes a while to choose the synchronous standby.
        if (statusCode !== NO_STANDBY || performance.now() > deadline)
          throw new UsageError(`Patroni returned ${statusCode}: ${text}`)
      }
    },
    /** Creates the database and its roles with these passwords. */
    async createRoles({ owner, service, operator }: Passwords): Promise<void> {
      const psql = [join(programs, 'psql'), '--quiet', '--no-psqlrc', `--file=${ROLES}`]
      await runProgram([...psql, `postgres://postgres@${postgresOf(await primary())}/postgres`], {
        PGPASSWORD: secrets.superuser,
        PGSSLMODE: 'verify-full',
        PGSSLROOTCERT: caFile,
        OWNER_PASSWORD: owner,
        SERVICE_PASSWORD: service,
        OPERATOR_PASSWORD: operator,
      })
    },
  }
}

export async function getJson(url: string, dispatcher?: Dispatcher): Promise<unknown> {
  const signal = AbortSignal.timeout(PROBE_MS)
  const { statusCode, body } = await request(url, { signal, ...(dispatcher && { dispatcher }) })
  const text = await body.text()
  if (statusCode !== 200) throw new Error(`${url} returned ${statusCode}`)
  return JSON.parse(text)
}
