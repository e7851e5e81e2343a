import { chmod, mkdir, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runProgram } from '../../run-program.ts'

/** A small file system of its own in memory, which can be filled up. Only root can have one. */
export interface SmallDisk {
  folder: string
  /** Leaves no byte. */
  fill(): Promise<void>
  free(): Promise<void>
}

export const canHaveDisks = () => process.getuid?.() === 0

export async function openSmallDisk(
  folder: string,
  megabytes: number,
  cleanup: AsyncDisposableStack,
): Promise<SmallDisk> {
  await mkdir(folder)
  const mounting = runProgram(['mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder])
  cleanup.defer(async () => {
    await mounting
    await runProgram(['umount', '--lazy', folder])
  })
  await mounting
  // Postgres runs as another user, who must reach its data.
  await chmod(folder, 0o711)
  const filler = join(folder, 'filler')
  return {
    folder,
    async fill() {
      // What is freed meanwhile is filled, too.
      for (let n = 0; n < 3; n += 1) {
        const { bavail, bsize } = await statfs(folder)
        // Never the disk below, if it is unmounted meanwhile.
        const size = Math.min(bavail * bsize, megabytes * 2 ** 20)
        await writeFile(filler, Buffer.alloc(size), { flag: 'a' }).catch(() => {})
      }
    },
    free: () => rm(filler, { force: true }),
  }
}
