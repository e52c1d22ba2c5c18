// Brings the desired state of one family's table to the kernel.
import type { Clock } from '../../../clock.js'
import type { Pass } from '../../../engine/index.js'
import type { AffinityCleaner } from './affinity.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import { FrontendPlanner } from './frontend-elements.js'
import type { HeldSet } from './ledger.js'
import type { TableState } from './state.js'
import type { TableSender } from './table-sender.js'
import { elementLimits, type Refusal, Writing } from './writing.js'

export interface TableWriterOptions {
  readonly sender: TableSender
  readonly clock: Clock
  readonly state: TableState
  readonly affinity: AffinityCleaner
}

interface Work {
  readonly frontends: readonly FrontendEntry[]
  readonly held: readonly { readonly of: HeldSet; readonly entries: readonly HeldEntry[] }[]
  /** One transaction does not take everything. */
  readonly isInParts: boolean
}

export class TableWriter {
  readonly #options: TableWriterOptions
  readonly #planner: FrontendPlanner
  #refusal: Refusal | undefined

  constructor(options: TableWriterOptions) {
    this.#options = options
    const { ledger } = options.state
    this.#planner = new FrontendPlanner(ledger.schema, ledger.packer)
  }

  /** Why the last `write` failed; undefined: it did not, or no answer of the kernel came. */
  get refusal(): Refusal | undefined {
    return this.#refusal
  }

  /**
   * Writes the structure and all dirty objects. One transaction, unless it would have too many elements: then the endpoints of
   * frontends that no packet meets come first, and what makes them serve after them. While no packet enters the table, the order of
   * elements does not matter: the structure comes first, so that the kernel works on it while the first elements are planned, and the
   * base chains come at the end. Throws KernelError; transactions before the failed one stay, and objects that the kernel does not
   * have are dirty still. False: `isStopping` returned true before the last transaction; the rest was not sent.
   */
  async write(pass: Pass, isStopping: () => boolean): Promise<boolean> {
    const { state } = this.#options
    const { ledger } = state
    const frontends = ledger.frontends.takeDirty()
    const held = ledger.heldSets.map((of) => ({ of, entries: of.entries.takeDirty() }))
    state.compile(frontends)
    const { isServing } = state.structure
    const isInParts = this.#isMoreThan(frontends, isServing ? elementLimits.whole : elementLimits.part)
    const writing = new Writing({
      ...this.#options,
      planner: this.#planner,
      pass,
      mostElements: isInParts ? elementLimits.part : elementLimits.whole,
      isStopping,
    })
    const work = { frontends, held, isInParts }
    let isSent = false
    try {
      isSent = await this.#send(writing, work)
      return isSent
    } finally {
      this.#refusal = writing.refusal
      if (!isSent) {
        for (const entry of frontends) ledger.frontends.markDirty(entry)
        for (const { of, entries } of held) for (const entry of entries) of.entries.markDirty(entry)
      }
    }
  }

  async #send(writing: Writing, work: Work): Promise<boolean> {
    try {
      return await this.#sendAll(writing, work)
    } finally {
      // Also after a stop: no transaction may still run when the write ends.
      await writing.settled()
    }
  }

  async #sendAll(writing: Writing, { frontends, held, isInParts }: Work): Promise<boolean> {
    const { isServing } = this.#options.state.structure
    if (isInParts && !isServing) await writing.writeStructure()
    await writing.writeStrays()
    if (isInParts && isServing) await writing.writeData(frontends)
    await writing.writeFrontends(frontends)
    for (const { of, entries } of held) await writing.writeHeld(of, entries)
    return await writing.end()
  }

  /** Whether the frontends may have more elements than `limit`. */
  #isMoreThan(frontends: readonly FrontendEntry[], limit: number): boolean {
    const { endpointBytes } = this.#options.state.ledger.packer
    let size = 0
    for (const { acknowledged, desired } of frontends) {
      if (acknowledged === desired) continue
      size += 2 + (desired.endpoints.length + desired.shortCircuit.length) / endpointBytes
      if (size > limit) return true
    }
    return false
  }
}
