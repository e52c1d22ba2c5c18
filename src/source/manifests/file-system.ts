// The file system calls that are needed to follow a folder, and their implementation. They are synchronous on purpose: the state,
// the bytes and the events of a file then have one order, and a small local file costs 20-50 us.
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  statSync,
  watch,
} from 'node:fs'
import type { BigIntStats } from 'node:fs'
import { ConfigError } from '../../errors.js'

export interface FileState {
  readonly kind: 'file' | 'directory' | 'other'
  /** Differs if stat shows that the file was replaced or written. */
  readonly signature: string
  /** Device and inode. */
  readonly identity: string
}

export interface DirectoryEntry {
  readonly name: string
  readonly isLink: boolean
}

export interface FileContents {
  readonly bytes: Uint8Array
  /** false: the file changed during the read, so the bytes may mix two versions. */
  readonly stable: boolean
  readonly state: FileState
}

export interface WatchListener {
  /** undefined: the system does not say which entry changed. */
  changed(name: string | undefined): void
  /** The watch failed, and reports no more changes. */
  failed(): void
}

/** Lookups follow symbolic links, return undefined for an absent entry, and throw ConfigError on failure. */
export interface FileSystem {
  state(path: string): FileState | undefined
  list(path: string): readonly DirectoryEntry[] | undefined
  realPath(path: string): string | undefined
  /** The target of a symbolic link, which need not exist; undefined for anything else. */
  linkText(path: string): string | undefined
  /** Bytes of a regular file; none of anything else. */
  read(path: string): FileContents | undefined
  /** Watches one directory, not those below. Returns the function that closes the watch; undefined: the directory is absent. */
  watch(path: string, listener: WatchListener): (() => void) | undefined
}

// A dump of some 17,000 Services. NB: parsing a file blocks everything else: 0.15-0.3 s for 2 MB of YAML, 0.8-1.6 s for 10 MB of a
// dump, and up to twice that for small objects. JSON takes half the time, or less.
const largestFileBytes = 16 * 1024 * 1024

/** The machine's file system; inotify reports changes. */
export const nodeFileSystem: FileSystem = {
  state: (path) => unlessAbsent(path, () => describe(statSync(path, { bigint: true }))),
  list: (path) =>
    unlessAbsent(path, () =>
      readdirSync(path, { withFileTypes: true }).map((entry) => ({
        name: entry.name,
        isLink: entry.isSymbolicLink(),
      })),
    ),
  realPath: (path) => unlessAbsent(path, () => realpathSync(path)),
  linkText: (path) =>
    unlessAbsent(path, () => (lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined)),
  read: (path) => unlessAbsent(path, () => readRegularFile(path)),
  watch: (path, listener) => unlessAbsent(path, () => watchDirectory(path, listener)),
}

function describe(stat: BigIntStats): FileState {
  const kind = stat.isFile() ? 'file' : stat.isDirectory() ? 'directory' : 'other'
  const identity = `${stat.dev}:${stat.ino}`
  return { kind, identity, signature: `${identity}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}` }
}

function readRegularFile(path: string): FileContents {
  // O_NONBLOCK: opening a named pipe would otherwise wait for its writer.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = fstatSync(fd, { bigint: true })
    const state = describe(stat)
    if (state.kind !== 'file') return { bytes: new Uint8Array(), stable: true, state }
    if (stat.size > largestFileBytes) {
      throw new ConfigError(path, `must be at most ${largestFileBytes} bytes, not ${stat.size}: split it`)
    }
    const buffer = Buffer.allocUnsafe(Number(stat.size))
    const length = readFully(fd, buffer)
    const after = describe(fstatSync(fd, { bigint: true }))
    const stable = length === buffer.length && after.signature === state.signature
    return { bytes: buffer.subarray(0, length), stable, state }
  } finally {
    closeSync(fd)
  }
}

function readFully(fd: number, buffer: Uint8Array): number {
  let length = 0
  while (length < buffer.length) {
    const got = readSync(fd, buffer, length, buffer.length - length, length)
    if (got === 0) break
    length += got
  }
  return length
}

function watchDirectory(path: string, listener: WatchListener): () => void {
  const watcher = watch(path, { encoding: 'utf8' }, (_event, name) => listener.changed(name ?? undefined))
  watcher.on('error', () => listener.failed())
  return () => watcher.close()
}

function unlessAbsent<T>(path: string, call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new ConfigError(path, reasons[code] ?? `cannot be read: ${String(error)}`)
  }
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: 'cannot be read: permission denied (EACCES)',
  ELOOP: 'is a symbolic link that leads to itself (ELOOP)',
  EIO: 'cannot be read: input/output error (EIO)',
  // inotify_add_watch and inotify_init1 (inotify(7)).
  ENOSPC: 'cannot be watched: too few inotify watches (ENOSPC); raise sysctl fs.inotify.max_user_watches',
  EMFILE:
    'cannot be opened or watched: too many inotify instances or open files (EMFILE); ' +
    'raise sysctl fs.inotify.max_user_instances or the limit of open files',
}
