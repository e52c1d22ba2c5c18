// Configuration files on this machine. The calls are synchronous, because they run once, before anything else.
import {
  closeSync,
  constants,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { ConfigError } from '../errors.js'

// The limit of etcd for an object, such as a ConfigMap.
const largestFileBytes = 1024 * 1024

/** Reads a file, or a pipe until its end. Throws ConfigError with `path`. */
export function readConfigFile(path: string): Uint8Array {
  try {
    const bytes = readAtMost(path, largestFileBytes + 1)
    if (bytes.length <= largestFileBytes) return bytes
  } catch (error) {
    throw new ConfigError(path, `cannot be read: ${reasonOf(error)}`)
  }
  throw new ConfigError(path, `must be at most ${largestFileBytes} bytes`)
}

/** Replaces a file atomically: an existing file stays until the new one is complete. Throws ConfigError with `path`. */
export function writeConfigFile(path: string, text: string): void {
  try {
    const target = targetOf(path)
    if (target === undefined) return writeFileSync(path, text)
    const fresh = `${target}.${process.pid}`
    try {
      writeFileSync(fresh, text, { flush: true })
      renameSync(fresh, target)
    } finally {
      rmSync(fresh, { force: true })
    }
  } catch (error) {
    throw new ConfigError(path, `cannot be written: ${reasonOf(error)}`)
  }
}

function readAtMost(path: string, most: number): Uint8Array {
  const fd = openSync(path, constants.O_RDONLY)
  try {
    const buffer = Buffer.allocUnsafe(most)
    let length = 0
    while (length < most) {
      const got = readSync(fd, buffer, length, most - length, null)
      if (got === 0) break
      length += got
    }
    return buffer.subarray(0, length)
  } finally {
    closeSync(fd)
  }
}

/** The file to rename onto, with links followed; undefined: a device or a pipe. */
function targetOf(path: string): string | undefined {
  const state = statSync(path, { throwIfNoEntry: false })
  if (state === undefined) return path
  return state.isFile() || state.isDirectory() ? realpathSync(path) : undefined
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return reasons[code] ?? String(error)
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'permission denied (EACCES)',
  EDQUOT: 'the quota of the disk is used up (EDQUOT)',
  EIO: 'input/output error (EIO)',
  EISDIR: 'it is a folder (EISDIR)',
  ELOOP: 'it is a symbolic link that leads to itself (ELOOP)',
  ENOENT: 'it does not exist (ENOENT)',
  ENOSPC: 'the disk is full (ENOSPC)',
  ENOTDIR: 'it is below something that is no folder (ENOTDIR)',
  EROFS: 'the file system is read-only (EROFS)',
}
