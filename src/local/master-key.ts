import type { MasterKey } from '../config.ts'
import type { System } from '../system.ts'
import { readOrCreate } from './data-folder.ts'

/** A master key that is generated once and kept in the data folder. */
export async function openLocalMasterKey(dataDir: string, { randomBytes }: System): Promise<MasterKey> {
  const encoded = await readOrCreate(dataDir, 'master-key', randomBytes, () =>
    randomBytes(32).toString('base64'),
  )
  return { id: 'local', key: Buffer.from(encoded, 'base64') }
}
