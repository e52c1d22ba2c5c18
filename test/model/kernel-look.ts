import type { LookFinding } from '../../src/kernel/addon.js'
import type { IpFamily } from '../../src/address.js'
import { type KernelLook, lookPace, type LookWatch } from '../../src/kernel/look/kernel-look.js'
import type { VirtualServerKey } from '../../src/kernel/ipvs/ipvs.js'
import { closedError } from '../../src/kernel/request-queue.js'
import type { XtTableName } from '../../src/kernel/xtables/xtables.js'
import type { ModelIpset } from './ipset.js'
import type { ModelIpvs } from './ipvs.js'
import type { ModelXtNamespace } from './xtables-table.js'

/** Calls `wake` once after `delayMs`. The returned function cancels the call. */
export interface ModelTime {
  schedule: (delayMs: number, wake: () => void) => () => void
}

interface Seen {
  readonly xtNamespace: ModelXtNamespace
  readonly ipvs: ModelIpvs
  readonly ipset: ModelIpset
  readonly time: ModelTime
}

/** Looks at the tables, sets and virtual servers of a model kernel. */
export class ModelKernelLook implements KernelLook {
  readonly #families: readonly IpFamily[]
  readonly #kernel: Seen
  readonly #watches = new Set<ModelLookWatch>()
  #isClosed = false

  constructor(families: readonly IpFamily[], kernel: Seen) {
    this.#families = families
    this.#kernel = kernel
  }

  async take(): Promise<Uint8Array> {
    if (this.#isClosed) throw closedError('xtables')
    return Buffer.from(this.#describe())
  }

  watch(setPrefix: string): LookWatch {
    return this.#watch(() => `${this.#describe()} | ${this.#kernel.ipset.describe(setPrefix)}`)
  }

  watchTables(): LookWatch {
    return this.#watch(() => this.#tables(['nat', 'filter']).join(' | '))
  }

  #watch(describe: () => string): LookWatch {
    if (this.#isClosed) throw closedError('xtables')
    const watch = new ModelLookWatch(this.#kernel, describe, () => this.#watches.delete(watch))
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#watches].map((watch) => watch.close()))
  }

  #describe(): string {
    return [...this.#tables(['nat', 'mangle', 'filter']), this.#kernel.ipvs.countIpv4()].join(' | ')
  }

  #tables(names: readonly XtTableName[]): readonly string[] {
    const { xtNamespace } = this.#kernel
    return this.#families.flatMap((family) => names.map((table) => xtNamespace.table(family, table).info))
  }
}

class ModelLookWatch implements LookWatch {
  readonly #kernel: Seen
  readonly #describe: () => string
  readonly #forget: () => void
  #seen: string | undefined
  #seenUnlocks: number
  #sample: { readonly keys: string; readonly text: string } = { keys: '', text: '' }
  #isClosed = false
  /** Ends the pause between two looks. */
  #wake: () => void = () => {}

  constructor(kernel: Seen, describe: () => string, forget: () => void) {
    this.#kernel = kernel
    this.#describe = describe
    this.#forget = forget
    this.#seenUnlocks = kernel.xtNamespace.unlocks
  }

  async next(sample: readonly VirtualServerKey[]): Promise<LookFinding | undefined> {
    if (this.#seen === undefined) this.#findsOther(sample)
    for (let waitedMs = 0; waitedMs < lookPace.longestWaitMs; waitedMs += lookPace.periodMs) {
      await this.#pause()
      if (this.#isClosed) return undefined
      const found = { isOther: this.#findsOther(sample), isUnlocked: this.#findsUnlocked() }
      if (found.isOther || found.isUnlocked) return found
    }
    return { isOther: false, isUnlocked: false }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#forget()
    this.#wake()
  }

  async #pause(): Promise<void> {
    if (this.#isClosed) return
    await new Promise<void>((resume) => {
      const cancel = this.#kernel.time.schedule(lookPace.periodMs, resume)
      this.#wake = () => {
        cancel()
        resume()
      }
    })
  }

  #findsOther(sample: readonly VirtualServerKey[]): boolean {
    const keys = JSON.stringify(sample)
    const text = this.#kernel.ipvs.describe(sample)
    const former = this.#sample
    this.#sample = { keys, text }
    const isOtherSample = former.keys === keys && former.text !== text
    const seen = this.#describe()
    const isOther = this.#seen !== undefined && this.#seen !== seen
    this.#seen = seen
    return isOther || isOtherSample
  }

  #findsUnlocked(): boolean {
    const { unlocks } = this.#kernel.xtNamespace
    const isUnlocked = unlocks !== this.#seenUnlocks
    this.#seenUnlocks = unlocks
    return isUnlocked
  }
}
