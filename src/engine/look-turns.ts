// Whether a pass looks at the kernel, or leaves that to a later one.
import type { Clock } from '../clock.js'

/** Greatest delay of a look by changes. */
const longestWaitMs = 500

/** The same, of the next slice of a look that goes on: slices of 5 ms so take a tenth of the time. */
const longestSliceWaitMs = 50

/** Lets passes for changes come before a look, which may take longer than all of them. A look that is due stays due. */
export class LookTurns {
  readonly #clock: Pick<Clock, 'now'>
  /** The first pass since the last turn that had none. */
  #leftMs: number | undefined

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /**
   * Whether the pass that begins may look. `isForChanges`: it is for changes, to a kernel that is as desired as far as is known. `isInSlices`: a look
   * goes on, a slice in each pass.
   */
  take(isForChanges: boolean, isInSlices = false): boolean {
    const nowMs = this.#clock.now()
    this.#leftMs ??= nowMs
    const mostMs = isInSlices ? longestSliceWaitMs : longestWaitMs
    if (isForChanges && nowMs - this.#leftMs < mostMs) return false
    this.#leftMs = undefined
    return true
  }
}
