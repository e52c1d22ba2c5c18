import { constants as fileConstants, readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { KernelError } from '../../errors.js'

/** Kernel settings under /proc/sys, named by their path: `net/ipv4/vs/conntrack`. */
export interface Sysctl {
  /** Trimmed text; undefined: the kernel lacks the setting. Throws KernelError if it cannot be read. */
  read(path: string): Promise<string | undefined>
  /** Throws KernelError (ENOENT: no such setting; EACCES/EPERM/EROFS: not allowed; EINVAL: bad value). */
  write(path: string, value: string): Promise<void>
}

/** An error of node:fs as a KernelError; other errors unchanged. */
export function toSysctlError(error: unknown, operation: string, path: string): unknown {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return error
  // libuv's numbers are negative errnos on Linux.
  return new KernelError({ errno: -error.errno, subsystem: 'sysctl', operation, object: path })
}

/**
 * Settings as files below a folder: /proc/sys or a test's folder. Reads are synchronous: the kernel answers at once, faster than a
 * thread of the pool. Writes are not: their effect may take time.
 */
export class RealSysctl implements Sysctl {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  async read(path: string): Promise<string | undefined> {
    try {
      return readFileSync(join(this.#root, path), 'utf8').trim()
    } catch (error) {
      const kernelError = toSysctlError(error, 'read', path)
      if (kernelError instanceof KernelError && kernelError.code === 'ENOENT') return undefined
      throw kernelError
    }
  }

  async write(path: string, value: string): Promise<void> {
    try {
      // Without O_CREAT: with it procfs answers EACCES for an absent file.
      const file = await open(join(this.#root, path), fileConstants.O_WRONLY)
      try {
        await file.write(value)
      } finally {
        await file.close()
      }
    } catch (error) {
      throw toSysctlError(error, 'write', path)
    }
  }
}
