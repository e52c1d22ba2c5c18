import type { IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Addon, RawMarkUse, RawXtablesTable } from '../addon.js'
import { describeXtTable } from './describe.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue, rawToKernelError, type Subject } from '../request-queue.js'
import { encodeTexts, encodeXtBatch, type XtPlace } from './encode.js'
import { decodeFirewallRules, decodeListing, type XtListing } from './listing.js'
import { Repairs } from './repairs.js'
import { PackedRulePackets } from './rule-packets.js'
import type {
  RulePackets,
  XtApplyOptions,
  XtBarrier,
  XtChainSummary,
  XtDrift,
  XtHook,
  XtOp,
  XtOutcome,
  XtRefusal,
  XtTableName,
  Xtables,
} from './xtables.js'

const defaultLockTimeoutMs = 5000

/** A legacy table for readers that follow a packet. */
export interface XtFirewall {
  readonly chains: ReturnType<typeof decodeFirewallRules>
  /** The built-in chains whose policy is DROP. */
  readonly closed: ReadonlySet<string>
}

/** A table of the running kernel. */
export class RealXtables implements Xtables {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly #queue: RequestQueue<RawXtablesTable>
  /** A separate socket for counters: an apply may wait seconds for the lock. */
  readonly #counting: RequestQueue<RawXtablesTable>
  readonly #subject: Subject
  readonly #repairs = new Repairs()
  #isHurried = false

  constructor(addon: () => Addon, place: XtPlace, calls: CallCounts) {
    const { family, table } = place
    this.family = family
    this.table = table
    const open = (): RawXtablesTable => new (addon().XtablesTable)(addressFamily[family], table)
    this.#queue = new RequestQueue(open, 'xtables', calls)
    this.#counting = new RequestQueue(open, 'xtables', calls)
    this.#subject = { family, object: describeXtTable(family, table) }
  }

  load(ops: readonly XtOp[]): Promise<void> {
    const { chains, rules, texts } = encodeXtBatch(ops, this)
    return this.#run((table) => table.load(chains, rules, texts))
  }

  stage(ops: readonly XtOp[]): Promise<void> {
    const { chains, rules, texts } = encodeXtBatch(ops, this)
    return this.#run((table) => table.stage(chains, rules, texts))
  }

  apply(ops: readonly XtOp[], options: XtApplyOptions = {}): Promise<XtOutcome> {
    const { prune = [], lockTimeoutMs = defaultLockTimeoutMs } = options
    const { chains, rules, texts } = encodeXtBatch(ops, this)
    const waitMs = (): number => (this.#isHurried ? 0 : lockTimeoutMs)
    return this.#run(async (table) => {
      const { repaired, ...outcome } = await table.apply(chains, rules, texts, encodeTexts(prune), waitMs())
      this.#repairs.add(repaired)
      return outcome
    })
  }

  refusals(): Promise<readonly XtRefusal[]> {
    return this.#run(async (table) => {
      const refusals = await table.refusals()
      return refusals.map(({ chain, rule, error }) => {
        const subject = { family: this.family, object: `${this.#subject.object} ${chain}` }
        return { chain, rule, error: rawToKernelError(error, 'xtables', subject) }
      })
    })
  }

  check(): Promise<boolean> {
    return this.#run((table) => table.check())
  }

  compare(): Promise<XtDrift> {
    return this.#run((table) => table.compare())
  }

  takeRepairs(): XtDrift {
    return this.#repairs.take()
  }

  chains(): Promise<readonly XtChainSummary[]> {
    return this.#run(async (table) => {
      const { names, rules } = await table.chains()
      return names.map((chain, i) => ({ chain, rules: rules[i] ?? 0 }))
    })
  }

  /** `Kernel.listTable` of the legacy table. */
  async list(setOf: (index: number) => string | undefined): Promise<XtListing> {
    const raw = await this.#run((table) => table.list())
    return decodeListing(raw, { family: this.family, setOf })
  }

  /**
   * The rules of the built-in chains and of those to which they lead, and the policies of the built-in chains. Viaduct's own chains have
   * none. Behind a `compare` it takes one system call. Throws KernelError.
   */
  async firewallRules(): Promise<XtFirewall> {
    const raw = await this.#run((table) => table.listReached())
    return {
      chains: decodeFirewallRules(raw, { family: this.family, setOf: () => undefined }),
      closed: new Set(raw.chains.filter(({ drops }) => drops).map(({ name }) => name)),
    }
  }

  /** `Kernel.findBarrier` of the legacy table. */
  barrier(hook: XtHook): Promise<XtBarrier | undefined> {
    return this.#run((table) => table.barrier(hook))
  }

  /** The rules that use the packet mark, in the order of the table. Throws KernelError. */
  markUses(): Promise<readonly RawMarkUse[]> {
    return this.#run((table) => table.markUses())
  }

  packets(chains: readonly string[]): Promise<RulePackets> {
    const names = encodeTexts(chains)
    return this.#run(
      async (table) => new PackedRulePackets(await table.packets(names), chains.length),
      this.#counting,
    )
  }

  /** From now on no call waits for the lock of other programs. The call in flight throws EAGAIN if it waits. */
  hurry(): void {
    this.#isHurried = true
    this.#queue.touch((table) => table.hurry())
  }

  async close(): Promise<void> {
    await Promise.all([this.#queue.close(), this.#counting.close()])
  }

  async #run<T>(request: (table: RawXtablesTable) => Promise<T>, queue = this.#queue): Promise<T> {
    try {
      return await queue.run(request, this.#subject)
    } catch (error) {
      if (error instanceof KernelError && (await this.#isAbsent(error, queue))) throw this.#absent(error)
      throw error
    }
  }

  /** Whether the kernel lacks the table. ENOENT alone does not show it: a chain or a set may be missing. */
  async #isAbsent(error: KernelError, queue: RequestQueue<RawXtablesTable>): Promise<boolean> {
    if (error.code !== 'ENOENT') return error.code === 'ENOPROTOOPT'
    try {
      await queue.run((table) => table.check())
      return false
    } catch {
      return true // a check involves only the table
    }
  }

  #absent({ errno, operation, subsystem }: KernelError): KernelError {
    const extack = 'this kernel has no legacy x_tables of that name'
    return new KernelError({ errno, subsystem, operation, extack, ...this.#subject })
  }
}
