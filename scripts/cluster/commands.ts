import { UsageError } from '../kit/command.ts'
import type { Machine } from './machine.ts'
import { nameOf } from './machine.ts'
import type { Cluster } from './open-cluster.ts'

/** What can be done to a cluster that runs. */

const ACTS: Record<string, (machine: Machine) => Promise<void>> = {
  kill: (machine) => machine.kill(),
  freeze: (machine) => machine.freeze(),
  partition: (machine) => machine.cutOff(),
}

export const COMMANDS = [...Object.keys(ACTS), 'heal', 'switchover', 'stop', 'start', 'status']

/** Returns what is printed. @throws UsageError for a command that does not exist */
export async function carryOut(cluster: Cluster, [command = '', which, ...more]: string[]): Promise<string> {
  if (more.length > 0)
    throw new UsageError(`There is no \`${more.join(' ')}\` after \`${command} ${which}\`.`)
  const act = ACTS[command]
  if (act) {
    const machine = await findMachine(cluster, which ?? 'leader')
    await act(machine)
    return `${machine.name}: done. \`npm run cluster -- heal\` undoes it.`
  }
  if (which !== undefined) throw new UsageError(`\`${command}\` takes nothing after it.`)
  if (command === 'status') return await describe(cluster)
  if (command === 'heal') {
    await Promise.all(cluster.database.machines.map((machine) => machine.heal()))
    await cluster.healthy()
  } else if (command === 'switchover') await cluster.database.switchOver()
  else if (command === 'stop') await Promise.all(cluster.instances.map((instance) => instance.stop()))
  else if (command === 'start') await Promise.all(cluster.instances.map((instance) => instance.start()))
  else throw new UsageError(`There is no \`${command}\`.`)
  return await describe(cluster)
}

async function findMachine(cluster: Cluster, which: string): Promise<Machine> {
  const role = which === 'leader' ? 'leader' : which === 'standby' ? 'sync_standby' : null
  const name = role
    ? (await cluster.database.members()).find((member) => member.role === role)?.name
    : nameOf(Number(which))
  const machine = cluster.database.machines.find((each) => each.name === name)
  if (!machine) throw new UsageError(role ? `There is no ${which}.` : 'Name leader, standby, 1, 2 or 3.')
  return machine
}

export async function describe(cluster: Cluster): Promise<string> {
  const members = await cluster.database.members()
  const quorum = (await cluster.database.hasQuorum())
    ? []
    : ['  etcd has no majority: no machine is primary, and these are the roles of before']
  const machines = cluster.database.machines.map(({ name }) => {
    const { role = 'away', state = '' } = members.find((member) => member.name === name) ?? {}
    return `  ${name}   ${role} ${state}`
  })
  const readiness = await cluster.readiness()
  const instances = cluster.instances.map(({ name, url, opsUrl }) => {
    const isReady = readiness.find((each) => each.name === name)?.isReady
    return `  ${name}  ${url}, operations ${opsUrl}: ${isReady ? 'ready' : 'not ready'}`
  })
  const proxies = cluster.urls.map(
    (url, index) => `  proxy-${index + 1}     ${url}, for services ${cluster.platformUrls[index]}`,
  )
  return [...quorum, ...machines, ...instances, ...proxies].join('\n')
}
