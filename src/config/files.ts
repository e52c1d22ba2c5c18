// Configuration files on this machine: reading, replacing, and a watch for changes. Reading and writing are synchronous, because they run
// once, before anything else.
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
  lstatSync,
  readlinkSync,
  watch,
  type FSWatcher,
} from 'node:fs'
import { basename, isAbsolute, join, resolve } from 'node:path'
import { ConfigError } from '../errors.js'
import type { Clock } from '../clock.js'

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

/**
 * Never resolves. Rejects with ConfigError when the file's content differs from `bytes`, with kube-proxy's sentence (F-105), and when
 * the system refuses to watch. A file that is absent, unreadable or empty counts as unchanged, because a writer is about to fill it.
 */
export async function watchConfigFile(
  file: { readonly path: string; readonly bytes: Uint8Array } | undefined,
  options: Pick<ConfigWatchState, 'signal' | 'clock'>,
): Promise<never> {
  return await new Promise<never>((_resolve, reject) => {
    // A pipe is read only once, and opening it again would wait for a writer.
    if (file === undefined || statSync(file.path, { throwIfNoEntry: false })?.isFile() === false) return
    const configWatch = new ConfigWatch({ ...file, ...options, reject })
    options.signal.addEventListener('abort', () => configWatch.close(), { once: true })
    configWatch.look()
  })
}

// A writer makes several system calls. After this time it is probably done.
const settleMs = 100
// linux/namei.h MAXSYMLINKS.
const mostLinks = 40

interface ConfigWatchState {
  /** Ends the watch. */
  readonly signal: AbortSignal
  readonly clock: Pick<Clock, 'schedule'>
  readonly path: string
  readonly bytes: Uint8Array
  readonly reject: (error: unknown) => void
}

class ConfigWatch {
  readonly #state: ConfigWatchState
  #watchers: readonly FSWatcher[] = []
  #isWaiting = false

  constructor(state: ConfigWatchState) {
    this.#state = state
  }

  /** Renews the watches, because a watched file may have been replaced, and then reads. A change is seen by the read or by a watch. */
  look(): void {
    this.#isWaiting = false
    if (this.#state.signal.aborted) return
    const { path, bytes, reject } = this.#state
    try {
      this.#renew()
      const now = contentOf(path)
      if (now === undefined || Buffer.compare(now, bytes) === 0) return
      this.close()
      reject(new ConfigError(path, "content of the proxy server's configuration file was updated"))
    } catch (error) {
      this.close()
      reject(error)
    }
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close()
    this.#watchers = []
  }

  #renew(): void {
    this.close()
    const watchers: FSWatcher[] = []
    this.#watchers = watchers
    for (const place of placesOf(this.#state.path)) {
      const watcher = this.#watch(place)
      if (watcher !== undefined) watchers.push(watcher)
    }
  }

  #watch({ path, name }: Place): FSWatcher | undefined {
    try {
      const watcher = watch(path, { encoding: 'utf8' }, (_event, changed) => {
        // inotify names the watched directory itself when it is removed.
        if (name === undefined || changed === null || changed === name || changed === basename(path))
          this.#lookSoon()
      })
      watcher.on('error', () => this.#lookSoon())
      return watcher
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      if (code !== 'ENOENT' && code !== 'ENOTDIR') {
        throw new ConfigError(path, `cannot be watched: ${String(error)}`)
      }
      this.#lookSoon()
      return undefined
    }
  }

  #lookSoon(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    this.#state.clock.schedule(settleMs, () => this.look())
  }
}

function contentOf(path: string): Uint8Array | undefined {
  try {
    const bytes = readConfigFile(path)
    return bytes.length === 0 ? undefined : bytes
  } catch (error) {
    if (error instanceof ConfigError) return undefined
    throw error
  }
}

/** A file, or one name in a folder. */
interface Place {
  readonly path: string
  readonly name?: string
}

/** Everything that `path` depends on: each link on the way, the name at its end, and the file itself. */
function placesOf(path: string): readonly Place[] {
  const places: Place[] = []
  let steps = stepsOf(resolve(path))
  let folder = '/'
  for (let links = 0; links < mostLinks;) {
    const [name, ...rest] = steps
    if (name === undefined) return [...places, { path: folder }]
    const here = join(folder, name)
    const entry = entryAt(here)
    if (entry !== 'no link' || rest.length === 0) places.push({ path: folder, name })
    if (entry === 'absent') return places
    if (entry === 'no link') {
      folder = here
      steps = rest
    } else {
      if (isAbsolute(entry.target)) folder = '/'
      steps = [...stepsOf(entry.target), ...rest]
      links++
    }
  }
  return places
}

function stepsOf(path: string): readonly string[] {
  return path.split('/').filter((step) => step !== '' && step !== '.')
}

function entryAt(path: string): 'absent' | 'no link' | { readonly target: string } {
  try {
    return lstatSync(path).isSymbolicLink() ? { target: readlinkSync(path) } : 'no link'
  } catch {
    return 'absent'
  }
}
