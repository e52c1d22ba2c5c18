import { ConfigError } from '../../errors.js'
import type { Log, Problem, StateReporter } from '../../log.js'
import type { ObjectEvent, Source } from '../objects.js'
import { joinProblems } from '../readers/read-object.js'
import type { Clock } from '../../clock.js'
import { Catalog, type Conflict } from './catalog.js'
import type { FileObjects } from './document.js'
import type { FileContents, FileSystem } from './file-system.js'
import { parseManifest } from './parse.js'
import { RetryTimer } from './retry-timer.js'
import { Settler } from './settler.js'
import { WatchedTree, type TreeChanges } from './watched-tree.js'

export interface ManifestSourceOptions {
  /** Absolute path of the folder. */
  readonly root: string
  readonly fileSystem: FileSystem
  readonly clock: Clock
  readonly log: Log
  /** Reports files, folders and objects that are not in force as written. */
  readonly problems: StateReporter
  /** Called with the error that ends the source after its start: an error of `deliver`, or a bug. */
  readonly onCrash: (error: unknown) => void
}

type Changes = Map<string, FileObjects | undefined>

// After this time of reading and parsing, events, timers and the first syncs get their turn. A turn may be longer by one file (some
// seconds at the size limit) or by the listing of one folder, since these are not divided.
const turnMs = 10

// This many events are some 10 ms of work for the receiver.
const eventsPerTurn = 1000

/** Services, EndpointSlices, Nodes and ServiceCIDRs from a folder of YAML and JSON files, and their changes. */
export class ManifestSource implements Source {
  readonly #options: ManifestSourceOptions
  readonly #catalog = new Catalog()
  readonly #tree: WatchedTree
  readonly #settler: Settler
  readonly #retryTimer: RetryTimer
  #deliver: (events: readonly ObjectEvent[]) => void = () => undefined
  #work: Promise<void> = Promise.resolve()
  #started = false
  #isSynced = false
  /** Files and folders that never had a good state: their objects are not known. */
  readonly #unread = new Set<string>()
  #stopped = false

  constructor(options: ManifestSourceOptions) {
    this.#options = options
    this.#settler = new Settler(options.clock, () => this.#enqueue(() => this.#tree.take()))
    this.#retryTimer = new RetryTimer(options.clock, () => this.#settler.touch())
    this.#tree = new WatchedTree({
      root: options.root,
      fileSystem: options.fileSystem,
      clock: options.clock,
      touched: () => {
        if (this.#started && !this.#stopped) this.#settler.touch()
      },
      report: (path, problem) => this.#report(path, problem),
      forget: (path) => {
        this.#unread.delete(path)
        options.problems.forget(path)
      },
    })
  }

  async start(deliver: (events: readonly ObjectEvent[]) => void): Promise<void> {
    this.#deliver = deliver
    try {
      const everything = this.#tree.open()
      this.#started = true
      // Events from before `started` wait in the tree; this touch causes a look at them.
      this.#settler.touch()
      this.#enqueue(() => everything, true)
      await this.#work
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#settler.cancel()
    this.#retryTimer.cancel()
    this.#tree.close()
    await this.#work
  }

  #report(path: string, problem: ConfigError | undefined): void {
    if (problem === undefined) this.#unread.delete(path)
    else this.#miss(path)
    this.#options.problems.report(path, problem && describeProblem(path, [problem]))
  }

  #enqueue(look: () => TreeChanges, isFirst = false): void {
    const work = this.#work.then(async () => {
      if (this.#stopped) return
      const changes: Changes = new Map()
      await this.#read(look(), changes)
      await this.#readMore(changes)
      if (isFirst) {
        // A file may have moved during the look, from a folder not yet seen to one already seen. Its event is queued by now, and
        // arrives during these pauses.
        await this.#pause(0)
        await this.#pause(0)
        if (!this.#stopped) await this.#read(this.#tree.take(), changes)
        await this.#readMore(changes)
      }
      if (this.#stopped) return
      this.#retryTimer.update(this.#tree.hasFailures)
      const events = [...this.#apply(changes), ...this.#progress(isFirst)]
      await this.#deliverInTurns(events)
    })
    // The caller of start() gets the error of the first look.
    this.#work = isFirst ? work : work.catch((error: unknown) => this.#crash(error))
  }

  /** Ends the source: the receiver of the events has failed. */
  #crash(error: unknown): void {
    this.#stopped = true
    this.#options.onCrash(error)
  }

  async #deliverInTurns(events: readonly ObjectEvent[]): Promise<void> {
    for (let from = 0; from < events.length && !this.#stopped; from += eventsPerTurn) {
      if (from > 0) await this.#pause(0)
      this.#deliver(events.slice(from, from + eventsPerTurn))
    }
  }

  /** The milestone that is due now: `listed` or `synced`. */
  #progress(isFirst: boolean): readonly ObjectEvent[] {
    if (this.#isSynced) return []
    this.#isSynced = this.#unread.size === 0
    if (this.#isSynced) return [{ type: 'synced', withServiceCidrs: true }]
    return isFirst ? [{ type: 'listed' }] : []
  }

  /** Looks at a large folder in several turns. */
  async #readMore(changes: Changes): Promise<void> {
    while (this.#tree.hasMore && !this.#stopped) {
      await this.#pause(0)
      if (!this.#stopped) await this.#read(this.#tree.take(), changes)
    }
  }

  async #pause(delayMs: number): Promise<void> {
    await new Promise<void>((resolve) => this.#options.clock.schedule(delayMs, resolve))
  }

  async #read({ changed, gone }: TreeChanges, changes: Changes): Promise<void> {
    for (const path of gone) {
      changes.set(path, undefined)
      this.#unread.delete(path)
    }
    const { clock } = this.#options
    let begin = clock.now()
    for (const path of changed) {
      if (clock.now() - begin >= turnMs) {
        await this.#pause(0)
        begin = clock.now()
      }
      if (this.#stopped) break
      this.#readFile(path, changes)
    }
  }

  /** Enters the file's objects into `changes`; a file that cannot be used is reported and keeps its last good ones. */
  #readFile(path: string, changes: Changes): void {
    try {
      const contents = this.#options.fileSystem.read(path)
      if (contents !== undefined) return this.#take(path, contents, changes)
      // The file went away after the look, perhaps by a rename. The next look decides, so `synced` waits for it.
      this.#miss(path)
      this.#tree.touch(path)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      this.#refuse(path, [error])
      this.#tree.retry(path)
    }
  }

  #take(path: string, contents: FileContents, changes: Changes): void {
    if (contents.state.kind !== 'file') {
      return this.#refuse(path, [new ConfigError(path, 'must be a regular file')])
    }
    if (!contents.stable) {
      this.#miss(path)
      return this.#tree.touch(path)
    }
    const reading = parseManifest(path, contents.bytes)
    if (!('objects' in reading)) return this.#refuse(path, reading.problems)
    const { objects, unusable, hasNameless, problems } = reading
    changes.set(path, { objects, unusable, hasNameless })
    // The state of an unusable object is not known: the kernel keeps it until the file can be read in full.
    if (!hasNameless && unusable.size === 0) this.#unread.delete(path)
    else if (!this.#isSynced) this.#unread.add(path)
    this.#options.problems.report(
      path,
      problems.length === 0 ? undefined : describeProblem(path, problems, objects.size > 0),
    )
    for (const ignored of reading.ignored) {
      this.#options.log.debug(`Object of another kind is ignored: ${ignored}`, { file: path })
    }
  }

  #miss(path: string): void {
    if (!this.#isSynced && !this.#catalog.holds(path)) this.#unread.add(path)
  }

  #refuse(path: string, found: readonly ConfigError[]): void {
    this.#miss(path)
    this.#options.problems.report(path, describeProblem(path, found))
  }

  #apply(changes: Changes): readonly ObjectEvent[] {
    const { events, conflicts } = this.#catalog.apply(changes)
    for (const [object, conflict] of conflicts) {
      this.#options.problems.report(object, conflict && describeConflict(conflict))
    }
    return events
  }
}

function describeProblem(file: string, problems: readonly ConfigError[], isInPart = false): Problem {
  const text = joinProblems(problems.map(({ message }) => message))
  return { text: isInPart ? `${text}; the other objects of the file are applied` : text, fields: { file } }
}

function describeConflict({ object, winner, others }: Conflict): Problem {
  const text = `${object} is in several files: ${winner} is in force, ${others.join(', ')} is not`
  return { text, fields: { file: winner, object } }
}
