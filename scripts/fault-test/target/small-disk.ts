import { chmod, mkdir, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runProgram } from '../../kit/run-program.ts'

export type SmallDisk = Awaited<ReturnType<typeof openSmallDisk>>

export const canHaveDisks = () => process.getuid?.() === 0

/** A small, separate file system in memory, which can be filled up. Only root can have one. */
export async function openSmallDisk(folder: string, megabytes: number, cleanup: AsyncDisposableStack) {
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
    /** Leaves no byte. */
    async fill() {
      // What is freed in the meantime is filled, too.
      for (let n = 0; n < 3; n += 1) {
        const { bavail, bsize } = await statfs(folder)
        // Never the disk below, if it was unmounted.
        const size = Math.min(bavail * bsize, megabytes * 2 ** 20)
        await writeFile(filler, Buffer.alloc(size), { flag: 'a' }).catch(() => {})
      }
    },
    free: () => rm(filler, { force: true }),
  }
}
