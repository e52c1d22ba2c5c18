// The watch of ipvs mode: one of the kernel for the pipelines of all families.
import { KernelError } from '../../errors.js'
import type { KernelLook, LookWatch, VirtualServerKey } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import { setPrefix } from './compile/sets.js'
import type { Clock } from '../../clock.js'
import type { FamilyPipeline } from './family-pipeline.js'
import { type ModeWatch, reportUnwatched } from '../../engine/index.js'

/** So long the same virtual servers of a large table are watched. */
const turnMs = 10_000

export interface IpvsWatchOptions {
  readonly look: KernelLook
  /** One per family. */
  readonly pipelines: readonly FamilyPipeline[]
  readonly clock: Clock
  readonly log: Log
}

/** undefined: the kernel cannot be watched, as the log says; pipelines look for themselves. */
export function openIpvsWatch(options: IpvsWatchOptions): ModeWatch | undefined {
  try {
    return new IpvsWatch(options.look.watch(setPrefix), options)
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    reportUnwatched(options.log, error)
    return undefined
  }
}

class IpvsWatch implements ModeWatch {
  readonly #watch: LookWatch
  readonly #options: IpvsWatchOptions
  #turnEndMs = -Infinity
  #sample: readonly VirtualServerKey[] | undefined

  constructor(watch: LookWatch, options: IpvsWatchOptions) {
    this.#watch = watch
    this.#options = options
    this.#takeSample()
  }

  async next(): Promise<boolean> {
    const { pipelines, log } = this.#options
    try {
      const found = await this.#watch.next(this.#sample ?? [])
      if (found === undefined) return false
      for (const pipeline of pipelines) {
        if (found.isOther) pipeline.noteLook()
        if (found.isUnlocked) pipeline.noteUnlock()
      }
      this.#takeSample()
      return true
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      for (const pipeline of pipelines) pipeline.endWatch()
      reportUnwatched(log, error)
      return false
    }
  }

  async close(): Promise<void> {
    await this.#watch.close()
  }

  #takeSample(): void {
    const { clock, pipelines } = this.#options
    const isTurn = clock.now() >= this.#turnEndMs
    if (isTurn) this.#turnEndMs = clock.now() + turnMs
    const keys = pipelines.flatMap((pipeline) => pipeline.takeSample(isTurn))
    // The watch knows one list, of all families.
    const isSame = keys.length === this.#sample?.length && keys.every((key, i) => key === this.#sample?.[i])
    if (!isSame) for (const pipeline of pipelines) pipeline.beginWatch()
    this.#sample = keys
  }
}
