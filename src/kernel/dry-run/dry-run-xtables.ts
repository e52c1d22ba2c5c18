import type { IpFamily } from '../../address.js'
import type { XtPlace } from '../xtables/encode.js'
import { encodeXtBatch } from '../xtables/encode.js'
import type { XtListing } from '../xtables/listing.js'
import { ListingEditor } from '../xtables/listing-editor.js'
import type {
  RulePackets,
  XtApplyOptions,
  XtChainSummary,
  XtDrift,
  XtFlavour,
  XtOp,
  XtOutcome,
  XtRefusal,
  XtTableName,
  Xtables,
} from '../xtables/xtables.js'
import { readOnce } from './take-batch.js'
import type { TakeTransaction } from './transaction.js'

const none: XtDrift = { missing: [], changed: [] }

export interface DryRunXtablesOptions {
  readonly place: XtPlace
  readonly flavour: XtFlavour
  /** The kernel's table; an absent one is empty. Throws KernelError. */
  readonly list: () => Promise<XtListing>
  /** `Xtables.packets` of the kernel's table. */
  readonly packets: Xtables['packets']
  readonly take: TakeTransaction
}

/** A table in a dry run. */
export class DryRunXtables implements Xtables {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly #options: DryRunXtablesOptions
  readonly #staged: XtOp[] = []
  readonly #read: () => Promise<ListingEditor>
  #isApplied = false

  constructor(options: DryRunXtablesOptions) {
    const { family, table } = options.place
    this.family = family
    this.table = table
    this.#options = options
    this.#read = readOnce(async () => new ListingEditor(await options.list(), this))
  }

  /** The table as the transactions leave it. Throws KernelError. */
  async listing(): Promise<XtListing> {
    return (await this.#read()).listing
  }

  /** Loads no module: the rules count as possible. */
  async load(ops: readonly XtOp[]): Promise<void> {
    encodeXtBatch(ops, this) // throws BugError for invalid operations
    await this.#read()
  }

  async stage(ops: readonly XtOp[]): Promise<void> {
    encodeXtBatch(ops, this)
    this.#staged.push(...ops)
  }

  async apply(ops: readonly XtOp[], { prune = [] }: XtApplyOptions = {}): Promise<XtOutcome> {
    encodeXtBatch(ops, this)
    this.#staged.push(...ops)
    const editor = await this.#read()
    const change = { ops: this.#staged.splice(0), prune }
    const before = editor.listing
    const { isChanged, kept } = editor.apply(change)
    const { place, flavour, take } = this.#options
    if (isChanged) take({ part: 'xtables', place, flavour, ...change, before, after: editor.listing })
    this.#isApplied = true
    return { isWritten: isChanged, entries: 0, bytes: 0, repeats: 0, lockWaitMs: 0, kept }
  }

  async refusals(): Promise<readonly XtRefusal[]> {
    return []
  }

  async check(): Promise<boolean> {
    await this.#read()
    return this.#isApplied
  }

  async compare(): Promise<XtDrift> {
    await this.#read()
    return none
  }

  takeRepairs(): XtDrift {
    return none
  }

  async chains(): Promise<readonly XtChainSummary[]> {
    return (await this.listing())
      .filter(({ policy }) => policy === undefined)
      .map((listed) => ({
        chain: listed.chain,
        // Decoded when it is read.
        get rules() {
          return listed.rules.length
        },
      }))
  }

  async packets(chains: readonly string[]): Promise<RulePackets> {
    return await this.#options.packets(chains)
  }

  async close(): Promise<void> {}
}
