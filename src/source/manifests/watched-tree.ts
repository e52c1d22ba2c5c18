import { basename, dirname, join } from 'node:path'
import { ConfigError } from '../../errors.js'
import type { DirectoryEntry, FileState, FileSystem } from './file-system.js'
import { leadsTo, LinkTargets } from './link-targets.js'
import { RootAnchor } from './root-anchor.js'
import type { Clock } from '../../clock.js'

/** The changes that a look at the touched places found. Paths begin with the root as it was given. */
export interface TreeChanges {
  /** Files to read. */
  readonly changed: ReadonlySet<string>
  readonly gone: ReadonlySet<string>
}

export interface WatchedTreeOptions {
  readonly root: string
  readonly fileSystem: FileSystem
  readonly clock: Clock
  /** Something may have changed: call `take()` soon. */
  readonly touched: () => void
  /** Reports a place that cannot be read, or can again. Its last known state stays in force. */
  readonly report: (path: string, problem: ConfigError | undefined) => void
  /** A place has gone; its problem no longer holds. */
  readonly forget: (path: string) => void
}

/** An entry of a listed directory that has not been looked at yet. */
interface Sighting {
  readonly path: string
  readonly directory: Directory
  readonly entry: DirectoryEntry
}

interface Directory {
  readonly identity: string
  readonly realPath: string
  readonly close: () => void
  /** Manifest files by name, with the signature at the last look. */
  readonly files: Map<string, string>
  readonly children: Set<string>
  /** Entries that are symbolic links, broken ones included. */
  readonly links: Set<string>
}

const manifestName = /\.(?:yaml|yml|json)$/u
// The kernel drops events when 16384 (sysctl fs.inotify.max_queued_events) are queued, and node:fs does not report it. A
// burst of a quarter of this number makes the tree look at everything.
const doubtfulBurst = 4096

// Limit of listed entries in one look: some 10 ms.
const entriesPerLook = 400

/** The files of a root that becomes empty count as deleted after this time: it may be unmounted, or a tool may be about to refill it. */
const graceMs = 10_000

const absentRoot = 'does not exist: its objects stay in force until it is back'
const replacedRoot = 'is not a folder: its objects stay in force until it is one again'

const doNothing = (): void => undefined

function namesIn(directory: Directory): ReadonlySet<string> {
  return new Set([...directory.files.keys(), ...directory.children, ...directory.links])
}

/** The manifest files below a folder, followed by one inotify watch per directory. Reads no file. */
export class WatchedTree {
  readonly #options: WatchedTreeOptions
  readonly #fileSystem: FileSystem
  readonly #anchor: RootAnchor
  readonly #targets: LinkTargets
  readonly #directories = new Map<string, Directory>()
  /** Entries of listed directories, the newest last. */
  #sightings: Sighting[] = []
  #touchedDirectories = new Set<string>()
  #touchedEntries = new Set<string>()
  #events = 0
  #changed = new Set<string>()
  /** Files that are gone. `take()` returns them when the root exists and has other files, or has been empty for the grace period. */
  #gone = new Set<string>()
  /** Time since which the root holds no manifest, folder or link; undefined: it holds some, or is absent. */
  #emptySinceMs: number | undefined
  #cancelGrace = doNothing
  /** Directories that could not be watched, tried again at each look. */
  readonly #unwatched = new Map<string, ConfigError>()
  /** Places where the file system failed otherwise, tried again at each look. */
  #failed = new Set<string>()

  constructor(options: WatchedTreeOptions) {
    this.#options = options
    this.#fileSystem = options.fileSystem
    this.#anchor = new RootAnchor(options.root, options.fileSystem, () => this.#touchDirectory(options.root))
    this.#targets = new LinkTargets(options.fileSystem, (link) => this.touch(link))
  }

  /** The first look. A root that is absent, or no folder, is a problem as after the start. */
  open(): TreeChanges {
    this.#touchedDirectories.add(this.#options.root)
    return this.take()
  }

  /** Looks at touched and failed places, or at everything after a burst of events. If `hasMore`, the next call continues. */
  take(): TreeChanges {
    const { root } = this.#options
    const directories = this.#touchedDirectories
    const entries = this.#touchedEntries
    // NB: a file system that is mounted on an empty folder makes no event.
    if (this.#events >= doubtfulBurst || this.#emptySinceMs !== undefined) directories.add(root)
    for (const path of this.#unwatched.keys()) directories.add(path)
    for (const path of this.#failed) {
      if (path === root || path === dirname(root)) directories.add(root)
      else (this.#directories.has(path) ? directories : entries).add(path)
    }
    this.#failed = new Set()
    this.#touchedDirectories = new Set()
    this.#touchedEntries = new Set()
    this.#events = 0
    for (const path of directories) this.#lookAtDirectory(path)
    for (const path of entries) this.#attempt(path, () => this.#lookAtEntry(path))
    this.#lookAtSightings()
    this.#noteEmptiness()
    const changes = { changed: this.#changed, gone: this.#keepsGone() ? new Set<string>() : this.#gone }
    this.#changed = new Set()
    if (changes.gone === this.#gone) this.#gone = new Set()
    return changes
  }

  #noteEmptiness(): void {
    const { root, clock, report } = this.#options
    const directory = this.#directories.get(root)
    const isEmpty = directory !== undefined && !this.hasMore && namesIn(directory).size === 0
    if (isEmpty && this.#emptySinceMs === undefined) {
      this.#emptySinceMs = clock.now()
      this.#cancelGrace = clock.schedule(graceMs, () => this.#touchDirectory(root))
    } else if (!isEmpty && this.#emptySinceMs !== undefined) {
      this.#emptySinceMs = undefined
      this.#cancelGrace()
    }
    if (directory === undefined || this.#failed.has(root)) return
    const isWaiting = isEmpty && this.#keepsGone()
    const problem = isWaiting
      ? new ConfigError(root, 'is empty: its objects are removed after 10 s')
      : this.#unwatched.get(root)
    report(root, problem)
  }

  /** Whether deletions wait: the root is absent, not yet looked at in full, or empty for less than the grace period. */
  #keepsGone(): boolean {
    if (!this.#directories.has(this.#options.root) || this.hasMore) return true
    return this.#emptySinceMs !== undefined && this.#options.clock.now() - this.#emptySinceMs < graceMs
  }

  /** Whether the last look left entries for the next one. */
  get hasMore(): boolean {
    return this.#sightings.length > 0
  }

  /** Makes the next `take()` name this file again. */
  touch(path: string): void {
    this.#touchedEntries.add(path)
    this.#options.touched()
  }

  /** Makes the next `take()` name this file again, but does not call `touched`. */
  retry(path: string): void {
    this.#failed.add(path)
  }

  /** Whether a look later may find more, although no event announces it. */
  get hasFailures(): boolean {
    return this.#failed.size + this.#unwatched.size > 0 || this.#emptySinceMs !== undefined
  }

  close(): void {
    this.#cancelGrace()
    this.#anchor.close()
    this.#targets.close()
    for (const { close } of this.#directories.values()) close()
    this.#directories.clear()
  }

  #touchDirectory(path: string): void {
    this.#touchedDirectories.add(path)
    this.#options.touched()
  }

  #event(path: string, name: string | undefined): void {
    this.#events += 1
    // inotify names the directory itself when it is deleted or renamed. An entry of the same name gets a look too.
    if (name === undefined || name === basename(path)) return this.#touchDirectory(path)
    // Entries with dot names are ignored, but links may lead through them (`..data` of a ConfigMap volume).
    if (name.startsWith('.') && (this.#directories.get(path)?.links.size ?? 0) === 0) return
    this.touch(join(path, name))
  }

  #attempt(path: string, look: () => void): void {
    try {
      look()
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      this.#failed.add(path)
      this.#options.report(path, error)
    }
  }

  #lookAtDirectory(path: string): void {
    const isRoot = path === this.#options.root
    if (isRoot) this.#watchAboveRoot(path)
    else if (!this.#directories.has(path)) return
    this.#attempt(path, () => {
      const state = this.#fileSystem.state(path)
      if (state?.kind === 'directory') return this.#scan(path, state)
      this.#drop(path)
      if (isRoot) throw new ConfigError(path, state === undefined ? absentRoot : replacedRoot)
    })
  }

  #watchAboveRoot(root: string): void {
    const above = dirname(root)
    this.#attempt(above, () => {
      this.#anchor.renew()
      this.#options.report(above, undefined)
    })
  }

  /** Stats every entry below; a file is named only when its signature differs. */
  #scan(path: string, state: FileState): void {
    if (this.#isAbove(path, state.identity)) throw new ConfigError(path, 'is a link to a folder above itself')
    const before = this.#directories.get(path)
    before?.close()
    // The watch comes before the listing, so that a change in between is not lost.
    const watch = this.#watch(path)
    const directory: Directory = {
      identity: state.identity,
      realPath: this.#fileSystem.realPath(path) ?? path,
      close: watch.close,
      files: before?.files ?? new Map(),
      children: before?.children ?? new Set(),
      links: before?.links ?? new Set(),
    }
    this.#directories.set(path, directory)
    const entries = this.#fileSystem.list(path)
    if (entries === undefined) return this.#drop(path)
    const names = new Set<string>()
    for (const entry of entries) {
      if (entry.name.startsWith('.')) continue
      names.add(entry.name)
      this.#sightings.push({ path, directory, entry })
    }
    for (const name of namesIn(directory)) {
      if (!names.has(name)) this.#dropEntry(path, directory, name)
    }
    // NB: the root's failure is reported at the end of the look, since the root may be empty.
    if (path !== this.#options.root) this.#options.report(path, watch.failure)
  }

  #lookAtSightings(): void {
    for (let left = entriesPerLook; left > 0; left--) {
      const sighting = this.#sightings.pop()
      if (sighting === undefined) return
      const { path, directory, entry } = sighting
      // Skips entries of a directory that was listed again or has gone.
      if (this.#directories.get(path) !== directory) continue
      this.#attempt(join(path, entry.name), () => this.#scanEntry(path, directory, entry))
    }
  }

  #scanEntry(path: string, directory: Directory, entry: DirectoryEntry): void {
    const child = join(path, entry.name)
    if (entry.isLink) this.#noteLink(child, directory)
    else this.#dropLink(child, directory)
    const state = this.#fileSystem.state(child)
    if (state === undefined) return this.#dropContents(child, directory)
    if (directory.files.get(entry.name) !== state.signature) this.#note(child, directory, state)
  }

  #lookAtEntry(path: string): void {
    const parent = dirname(path)
    const name = basename(path)
    const directory = this.#directories.get(parent)
    if (directory === undefined) return
    if (name.startsWith('.')) return this.#lookAtLinks(parent, directory)
    this.#noteLink(path, directory)
    const state = this.#fileSystem.state(path)
    if (state === undefined) return this.#dropContents(path, directory)
    this.#note(path, directory, state)
  }

  #lookAtLinks(parent: string, directory: Directory): void {
    for (const name of Array.from(directory.links)) {
      const entry = { name, isLink: true }
      this.#attempt(join(parent, name), () => this.#scanEntry(parent, directory, entry))
    }
  }

  #note(path: string, directory: Directory, state: FileState): void {
    const name = basename(path)
    if (state.kind === 'directory') {
      this.#dropFile(path, directory)
      directory.children.add(name)
      this.#scan(path, state)
      return
    }
    if (directory.children.delete(name)) this.#drop(path)
    if (!manifestName.test(name)) return this.#options.report(path, undefined)
    directory.files.set(name, state.signature)
    this.#gone.delete(path)
    this.#changed.add(path)
  }

  /** Call it before the look, so that a change in between is not lost. */
  #noteLink(path: string, directory: Directory): void {
    const name = basename(path)
    const target = leadsTo(path, this.#fileSystem)
    if (target === undefined || target === join(directory.realPath, name))
      return this.#dropLink(path, directory)
    directory.links.add(name)
    this.#targets.follow(path, target)
  }

  #dropLink(path: string, directory: Directory): void {
    directory.links.delete(basename(path))
    this.#targets.unfollow(path)
  }

  #dropEntry(parent: string, directory: Directory, name: string): void {
    const path = join(parent, name)
    this.#dropLink(path, directory)
    this.#dropContents(path, directory)
  }

  /** Forgets the file or directory of an entry; a broken link is still followed. */
  #dropContents(path: string, directory: Directory): void {
    this.#options.forget(path)
    this.#dropFile(path, directory)
    if (directory.children.delete(basename(path))) this.#drop(path)
  }

  #dropFile(path: string, directory: Directory): void {
    if (!directory.files.delete(basename(path))) return
    this.#changed.delete(path)
    this.#gone.add(path)
  }

  /** Forgets a directory and everything below. */
  #drop(path: string): void {
    const directory = this.#directories.get(path)
    if (directory === undefined) return
    directory.close()
    this.#unwatched.delete(path)
    this.#directories.delete(path)
    for (const name of namesIn(directory)) this.#dropEntry(path, directory, name)
    this.#options.forget(path)
  }

  #watch(path: string): { readonly close: () => void; readonly failure: ConfigError | undefined } {
    this.#unwatched.delete(path)
    try {
      const close = this.#fileSystem.watch(path, {
        changed: (name) => this.#event(path, name),
        failed: () => this.#touchDirectory(path),
      })
      return { close: close ?? doNothing, failure: undefined }
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      this.#unwatched.set(path, error)
      return { close: doNothing, failure: error }
    }
  }

  #isAbove(path: string, identity: string): boolean {
    for (let above = path; above !== this.#options.root;) {
      above = dirname(above)
      if (this.#directories.get(above)?.identity === identity) return true
      if (above === dirname(above)) return false
    }
    return false
  }
}
