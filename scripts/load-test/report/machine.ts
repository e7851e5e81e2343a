import { cpus, totalmem } from 'node:os'

export interface Machine {
  cores: number
  cpu: string
  memoryGb: number
  node: string
  platform: string
}

export function readMachine(): Machine {
  return {
    cores: cpus().length,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
  }
}

export function describeMachine({ cores, cpu, memoryGb, node }: Machine): string {
  return `${cores} cores (${cpu}), ${memoryGb} GB, Node ${node}`
}

/** What ran on the machine. */
export function describePrograms(sharesMachine: boolean): string {
  return sharesMachine ? 'load generator, service and Postgres' : 'the load generator'
}
