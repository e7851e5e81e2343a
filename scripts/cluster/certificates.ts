import { join, resolve } from 'node:path'
import { runProgram } from '../kit/run-program.ts'

const SCRIPT = resolve(import.meta.dirname, '../../deploy/certificates.sh')

/** Uses the script for operators. Returns the machine's folder: it has ca.pem, and machine.pem with its key. */
export async function issueCertificate(folder: string, machine: string, names: string[]): Promise<string> {
  await runProgram([SCRIPT, folder, machine, ...names])
  return join(folder, machine)
}
