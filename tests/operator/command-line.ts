import { expect } from 'vitest'
import { run } from '../../scripts/admin/run.ts'
import { asRole } from '../support/postgres.ts'
import { MASTER_KEYS } from '../support/test-service.ts'

/** Runs operators' command lines in this process, against a service's database. */

interface Given {
  /** Standard input. */
  input?: string
  env?: Record<string, string>
}

export function commandLineOf({ url }: { url: string }) {
  // Hides the account that runs the tests.
  const settings = {
    ...process.env,
    SUDO_USER: '',
    USER: '',
    DATABASE_URL: asRole(url, 'gatehouse_operator'),
    MASTER_KEYS,
  }

  async function type(line: string, { input = '', env = {} }: Given = {}) {
    const [out, err]: [string[], unknown[]] = [[], []]
    const code = await run(line.split(' '), {
      env: { ...settings, ...env },
      readInput: async () => input,
      print: (text) => out.push(text),
      complain: (reason) => err.push(reason),
    })
    return { code, stdout: out.join('\n'), stderr: err.join('\n') }
  }

  async function admin(line: string, given?: Given) {
    const { stdout, ...end } = await type(`--json ${line}`, given)
    expect([line, end]).toEqual([line, { code: 0, stderr: '' }])
    return JSON.parse(stdout)
  }

  async function refusalOf(line: string, given?: Given) {
    const { stderr, ...end } = await type(`--json ${line}`, given)
    expect([line, end]).toEqual([line, { code: 1, stdout: '' }])
    return stderr
  }

  return { type, admin, refusalOf }
}
