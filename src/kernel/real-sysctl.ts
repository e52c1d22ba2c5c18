import { open, readFile } from 'node:fs/promises'
import { constants as fileConstants } from 'node:fs'
import { join } from 'node:path'
import { KernelError } from '../errors.js'
import type { Sysctl } from './sysctl.js'

function toKernelError(error: unknown, operation: string, path: string): unknown {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return error
  // libuv's numbers are negative errnos on Linux.
  return new KernelError({ errno: -error.errno, subsystem: 'sysctl', operation, object: path })
}

/** Settings as files below a folder: /proc/sys, or a test's own. */
export class RealSysctl implements Sysctl {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  async read(path: string): Promise<string | undefined> {
    try {
      return (await readFile(join(this.#root, path), 'utf8')).trim()
    } catch (error) {
      const kernelError = toKernelError(error, 'read', path)
      if (kernelError instanceof KernelError && kernelError.code === 'ENOENT') return undefined
      throw kernelError
    }
  }

  async write(path: string, value: string): Promise<void> {
    try {
      // Without O_CREAT, which procfs answers with EACCES where nothing is.
      const file = await open(join(this.#root, path), fileConstants.O_WRONLY)
      try {
        await file.write(value)
      } finally {
        await file.close()
      }
    } catch (error) {
      throw toKernelError(error, 'write', path)
    }
  }
}
