import type { Credentials, LiveSession } from '../operations/credentials.ts'

/** The service that the load is put on. */
export interface Target {
  /** Without a path. */
  url: string
  /** Undefined if only the service is known. */
  databaseUrl: string | undefined
  admin: Credentials
  /** Users who may sign in. */
  people: Credentials[]
  /** Sessions that nothing else uses: of the existing ones, or new ones. */
  takeSessions(count: number, which: 'existing' | 'new'): Promise<LiveSession[]>
  /** Processes whose usage is measured, if they run on this machine. */
  servicePid: number | undefined
  postgresPid: number | undefined
}
