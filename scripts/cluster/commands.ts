import { UsageError } from '../kit/command.ts'
import type { Machine } from './machine.ts'
import type { Cluster } from './open-cluster.ts'

type Command = (cluster: Cluster, which?: string) => Promise<unknown>

export const COMMANDS: Record<string, Command> = {
  kill: onMachine((machine) => machine.kill()),
  freeze: onMachine((machine) => machine.freeze()),
  partition: onMachine((machine) => machine.cutOff()),
  async heal({ database, healthy }) {
    await Promise.all(database.machines.map((machine) => machine.heal()))
    await healthy()
  },
  switchover: ({ database }) => database.switchOver(),
  stop: ({ instances }) => Promise.all(instances.map((instance) => instance.stop())),
  start: ({ instances }) => Promise.all(instances.map((instance) => instance.start())),
  status: async () => {},
}

function onMachine(act: (machine: Machine) => Promise<void>): Command {
  return async ({ database }, which = 'leader') => {
    const n = which === 'leader' ? await database.primary() : Number(which)
    const machine = database.machines[n - 1]
    if (!machine) throw new UsageError('The machine must be leader, 1, 2, or 3.')
    await act(machine)
  }
}

export async function carryOut(cluster: Cluster, [command = '', which]: string[]): Promise<string> {
  await COMMANDS[command]?.(cluster, which)
  return await describe(cluster)
}

export async function describe(cluster: Cluster): Promise<string> {
  const members = await cluster.database.members()
  const machines = cluster.database.machines.map(({ name }) => {
    const { role = 'away', state = '' } = members.find((member) => member.name === name) ?? {}
    return `  ${name}   ${role} ${state}`
  })
  const readiness = await cluster.readiness()
  const instances = cluster.instances.map(
    ({ name, url, opsUrl }, index) =>
      `  ${name}  ${url}, operations ${opsUrl}: ${readiness[index] ? 'ready' : 'not ready'}`,
  )
  const proxies = cluster.urls.map(
    (url, index) => `  proxy-${index + 1}     ${url}, platform ${cluster.platformUrls[index]}`,
  )
  return [...machines, ...instances, ...proxies].join('\n')
}
