import type { MasterKey } from '../config.ts'
import type { System } from '../system.ts'
import { readOrCreate } from './data-folder.ts'

export async function openLocalMasterKey(dataDir: string, { randomBytes }: System): Promise<MasterKey> {
  const encoded = await readOrCreate(dataDir, 'master-key', randomBytes, () =>
    randomBytes(32).toString('base64'),
  )
  return { id: 'local', key: Buffer.from(encoded, 'base64') }
}
