import type { Credentials, LiveSession } from '../operations/credentials.ts'

/** The listener for services of the platform, and one of them. */
export interface Platform {
  /** Without a path. */
  url: string
  client: { id: string; secret: string }
}

/** The service that the load is put on. */
export interface Target {
  /** Without a path. */
  url: string
  /** Undefined if only the service is known. */
  databaseUrl: string | undefined
  /** Undefined if the service runs already. */
  platform: Platform | undefined
  admin: Credentials
  /** Users who may sign in. */
  people: Credentials[]
  /** Sessions that nothing else uses: of the existing ones, or new ones. */
  takeSessions(count: number, which: 'existing' | 'new'): Promise<LiveSession[]>
  /** Processes whose usage is measured, if they run on this machine. */
  servicePid: number | undefined
  postgresPid: number | undefined
}
