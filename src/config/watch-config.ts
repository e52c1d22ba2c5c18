// A watch for changes of the configuration file. kube-proxy sees only writes and renames of the file itself. A ConfigMap in a volume
// changes by a link on the way to the file, so this watch follows every such link.
import { lstatSync, readlinkSync, statSync, watch, type FSWatcher } from 'node:fs'
import { basename, isAbsolute, join, resolve } from 'node:path'
import type { Clock } from '../clock.js'
import { ConfigError } from '../errors.js'
import { readConfigFile } from './files.js'

export interface ConfigWatchOptions {
  /** Ends the watch. */
  readonly signal: AbortSignal
  readonly clock: Pick<Clock, 'schedule'>
}

/**
 * Never resolves. Rejects with ConfigError when the file's content differs from `bytes`, with kube-proxy's sentence (F-105), and when
 * the system refuses to watch. A file that is absent, unreadable or empty counts as unchanged, because a writer is about to fill it.
 */
export async function watchConfigFile(
  file: { readonly path: string; readonly bytes: Uint8Array } | undefined,
  options: ConfigWatchOptions,
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

interface ConfigWatchState extends ConfigWatchOptions {
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
