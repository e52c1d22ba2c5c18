// The watch of iptables mode: one for the tables of all families. JavaScript sleeps while they are unchanged.
import { KernelError } from '../../errors.js'
import type { KernelLook, LookWatch } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import type { IptablesPipeline } from './pipeline.js'
import { type ModeWatch, reportUnwatched } from '../../engine/index.js'

export interface IptablesWatchOptions {
  readonly look: KernelLook
  /** One per family. */
  readonly pipelines: readonly IptablesPipeline[]
  readonly log: Log
}

/** undefined: the kernel cannot be watched, as the log says; pipelines look for themselves. */
export function openIptablesWatch(options: IptablesWatchOptions): ModeWatch | undefined {
  try {
    return new IptablesWatch(options.look.watchTables(), options)
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    reportUnwatched(options.log, error)
    return undefined
  }
}

class IptablesWatch implements ModeWatch {
  readonly #watch: LookWatch
  readonly #options: IptablesWatchOptions

  constructor(watch: LookWatch, options: IptablesWatchOptions) {
    this.#watch = watch
    this.#options = options
    for (const pipeline of options.pipelines) pipeline.beginWatch()
  }

  async next(): Promise<boolean> {
    const { pipelines, log } = this.#options
    try {
      for (;;) {
        const found = await this.#watch.next([])
        if (found === undefined) return false
        for (const pipeline of pipelines) {
          if (found.isOther) pipeline.noteLook()
          if (found.isUnlocked) pipeline.noteUnlock()
        }
        if (found.isOther || found.isUnlocked) return true
      }
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
}
