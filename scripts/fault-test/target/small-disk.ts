import { chmod, mkdir, rm, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runProgram } from '../../kit/run-program.ts'

export type SmallDisk = Awaited<ReturnType<typeof openSmallDisk>>

export const canHaveDisks = () => process.getuid?.() === 0

/** A small file system in memory. Only root can mount it. */
export async function openSmallDisk(folder: string, megabytes: number, cleanup: AsyncDisposableStack) {
  await mkdir(folder)
  const mounting = runProgram(['mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder])
  cleanup.defer(async () => {
    await mounting
    await runProgram(['umount', '--lazy', folder])
  })
  await mounting
  // Postgres runs as a different user, who must be able to reach its data.
  await chmod(folder, 0o711)
  const filler = join(folder, 'filler')
  return {
    folder,
    async fill() {
      // Also fills space that is freed in the meantime.
      for (let n = 0; n < 3; n += 1) {
        const { bavail, bsize } = await statfs(folder)
        // If it was unmounted, this must not fill the disk below.
        const size = Math.min(bavail * bsize, megabytes * 2 ** 20)
        await writeFile(filler, Buffer.alloc(size), { flag: 'a' }).catch(() => {})
      }
    },
    free: () => rm(filler, { force: true }),
  }
}
