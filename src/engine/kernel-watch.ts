import { asRefusal, KernelError, orRefusal } from '../errors.js'
import type { LookWatch, VirtualServerKey } from '../kernel/index.js'
import type { Log } from '../log.js'
import type { ModeWatch } from './mode.js'

/** A pipeline whose part of the kernel is watched. */
interface WatchedPipeline {
  /** The watch begins again. Its first reading is its reference, differences included. */
  beginWatch(): void
  /** The kernel's state differs from the watch's last look. */
  noteLook(): void
  /** Another program released the lock of the tables. */
  noteUnlock(): void
  /** The watch has ended: runs look for themselves. */
  endWatch(): void
}

interface KernelWatchOptions {
  /** Throws KernelError where the kernel cannot be watched. */
  readonly open: () => LookWatch
  /** One per family. */
  readonly pipelines: readonly WatchedPipeline[]
  /** Returns the virtual servers to watch from now on. Called before each wait. Default: none. */
  readonly takeSample?: () => readonly VirtualServerKey[]
  readonly log: Log
}

/**
 * One watch for the pipelines of all families. undefined: the kernel cannot be watched; the log says so, and pipelines look for
 * themselves.
 */
export function openKernelWatch(options: KernelWatchOptions): ModeWatch | undefined {
  try {
    return new KernelWatch(options.open(), options)
  } catch (error) {
    reportUnwatched(options.log, asRefusal(error))
    return undefined
  }
}

class KernelWatch implements ModeWatch {
  readonly #watch: LookWatch
  readonly #options: KernelWatchOptions
  #sample: readonly VirtualServerKey[] | undefined

  constructor(watch: LookWatch, options: KernelWatchOptions) {
    this.#watch = watch
    this.#options = options
    this.#takeSample()
  }

  async next(): Promise<boolean> {
    const { pipelines, log } = this.#options
    for (;;) {
      const found = await orRefusal(() => this.#watch.next(this.#sample ?? []))
      if (found === undefined) return false
      if (found instanceof KernelError) {
        for (const pipeline of pipelines) pipeline.endWatch()
        reportUnwatched(log, found)
        return false
      }
      for (const pipeline of pipelines) {
        if (found.isOther) pipeline.noteLook()
        if (found.isUnlocked) pipeline.noteUnlock()
      }
      const isSame = this.#takeSample()
      if (found.isOther || found.isUnlocked || !isSame) return true
    }
  }

  async close(): Promise<void> {
    await this.#watch.close()
  }

  /** False: the sample differs from the one before. */
  #takeSample(): boolean {
    const { pipelines, takeSample } = this.#options
    const keys = takeSample?.() ?? []
    // One list serves all families, so the watch begins again for all.
    const isSame = keys.length === this.#sample?.length && keys.every((key, i) => key === this.#sample?.[i])
    if (!isSame) for (const pipeline of pipelines) pipeline.beginWatch()
    this.#sample = keys
    return isSame
  }
}

function reportUnwatched(log: Log, error: KernelError): void {
  log.warn('The kernel cannot be watched: it is asked every second instead, which costs more', { err: error })
}

/** Several watches as one, which ends when all have ended. When one of several ends, pipelines need a run. */
export class JoinedWatch implements ModeWatch {
  readonly #watches: readonly ModeWatch[]
  /** The calls of `next` in progress, of the watches that have not ended. */
  readonly #waits = new Map<ModeWatch, Promise<{ readonly watch: ModeWatch; readonly goesOn: boolean }>>()

  constructor(watches: readonly ModeWatch[]) {
    this.#watches = watches
    for (const watch of watches) this.#wait(watch)
  }

  async next(): Promise<boolean> {
    if (this.#waits.size === 0) return false
    const { watch, goesOn } = await Promise.race(this.#waits.values())
    if (goesOn) this.#wait(watch)
    else this.#waits.delete(watch)
    return this.#waits.size > 0
  }

  async close(): Promise<void> {
    await Promise.all(this.#watches.map((watch) => watch.close()))
  }

  #wait(watch: ModeWatch): void {
    this.#waits.set(
      watch,
      watch.next().then((goesOn) => ({ watch, goesOn })),
    )
  }
}
