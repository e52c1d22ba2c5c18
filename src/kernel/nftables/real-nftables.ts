import type { IpFamily } from '../../address.js'
import { BugError } from '../../errors.js'
import type { Addon, RawNftEvents, RawNftTables } from '../addon.js'
import { addressFamily } from '../records.js'
import { type CallCounts, closedError, RequestQueue, toKernelError } from '../request-queue.js'
import { wakeAtExit } from '../wake-at-exit.js'
import { readChain, readRule, readTable } from './attributes.js'
import { decodeChanges, type NftChange } from './changes.js'
import type { Codec } from './codec.js'
import { decodeOutcome } from './decode-outcome.js'
import { describeSet } from './describe.js'
import { elementLayout, NfElements } from './elements.js'
import { encodeTransaction, writeLayout } from './encode.js'
import type {
  NfApplyOptions,
  NfChainState,
  NfCounterState,
  NfOutcome,
  NfRuleState,
  NfScope,
  NfSet,
  NfSetState,
  NfTableState,
  NfTransaction,
  Nftables,
  NftWatch,
} from './nftables.js'
import { chainRecord, counterRecord, grammar, ruleRecord, setRecord, tableRecord } from './schema.js'
import { StreamReader, StreamWriter } from './stream.js'

/** Listed in native/nftables/nft_tables.h. */
const listed = { tables: 0, chains: 1, rules: 2, sets: 3, counters: 4 } as const

interface ListRequest {
  readonly family: IpFamily
  readonly table?: string
  readonly chain?: string
}

/** The nf_tables of the kernel that we run on. */
export class RealNftables implements Nftables {
  readonly #addon: () => Addon
  readonly #queue: RequestQueue<RawNftTables>
  /** Those that are open. */
  readonly #watches = new Set<RealNftWatch>()
  #socket: RawNftTables | undefined
  #isClosed = false

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#addon = addon
    this.#queue = new RequestQueue(() => this.#open(), 'nftables', calls)
  }

  async apply(transaction: NfTransaction, options: NfApplyOptions = {}): Promise<NfOutcome> {
    const { generation = 0, isDryRun = false } = options
    const operations = encodeTransaction(transaction)
    const outcome = await this.#queue.run((socket) => socket.apply(operations, generation, isDryRun))
    return decodeOutcome(outcome, transaction)
  }

  generation(): Promise<number> {
    return this.#queue.run((socket) => socket.generation())
  }

  async tables(family: IpFamily): Promise<readonly NfTableState[]> {
    const read = await this.#list('tables', tableRecord, { family })
    return read.map((table) => readTable(family, table))
  }

  async chains(scope: NfScope): Promise<readonly NfChainState[]> {
    const read = await this.#list('chains', chainRecord, scope)
    return read.map((chain) => readChain(scope.family, chain))
  }

  async rules(scope: ListRequest): Promise<readonly NfRuleState[]> {
    const read = await this.#list('rules', ruleRecord, scope)
    return read.map((rule) => readRule(scope.family, rule))
  }

  async sets(scope: NfScope): Promise<readonly NfSetState[]> {
    const { family } = scope
    const read = await this.#list('sets', setRecord, scope)
    return read.map((attributes) => ({
      family,
      table: attributes.table,
      set: attributes.name,
      attributes,
    }))
  }

  async counters(scope: NfScope): Promise<readonly NfCounterState[]> {
    const { family } = scope
    const read = await this.#list('counters', counterRecord, scope)
    return read.map(({ table, name, data }) => ({
      family,
      table,
      counter: name,
      packets: data?.packets ?? 0,
      bytes: data?.bytes ?? 0,
    }))
  }

  async elements(set: NfSet): Promise<NfElements> {
    const request = new StreamWriter()
    request.u32(addressFamily[set.family])
    request.text(set.table)
    request.text(set.set)
    writeLayout(request, elementLayout(set))
    const subject = { family: set.family, object: describeSet(set) }
    const answer = await this.#queue.run((socket) => socket.listElements(request.finish()), subject)
    const stream = new StreamReader(answer)
    const labels = Array.from({ length: stream.u32() }, () => stream.bytes())
    return new NfElements(set, stream.bytes(), labels)
  }

  watch(): NftWatch {
    if (this.#isClosed) throw closedError('nftables')
    const watch = new RealNftWatch(this.#addon, this.#portId(), () => this.#watches.delete(watch))
    this.#watches.add(watch)
    return watch
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#watches].map((watch) => watch.close()))
    await this.#queue.close()
  }

  #open(): RawNftTables {
    const addon = this.#addon()
    if (addon.nftGrammar !== grammar)
      throw new BugError(
        "the addon's nf_tables attributes are not this build's: build both from the same source",
      )
    return (this.#socket ??= new addon.NftTables())
  }

  #portId(): number {
    try {
      return this.#open().portId()
    } catch (error) {
      throw toKernelError(error, 'nftables')
    }
  }

  async #list<T>(
    kind: keyof typeof listed,
    codec: Codec<T>,
    { family, table = '', chain = '' }: ListRequest,
  ): Promise<readonly T[]> {
    const request = new StreamWriter()
    request.u32(listed[kind])
    request.u32(addressFamily[family])
    request.text(table)
    request.text(chain)
    const answer = await this.#queue.run((socket) => socket.list(request.finish()), { family })
    const stream = new StreamReader(answer)
    const objects: T[] = []
    while (!stream.isAtEnd) objects.push(codec.read(stream))
    return objects
  }
}

class RealNftWatch implements NftWatch {
  readonly #queue: RequestQueue<RawNftEvents>
  readonly #events: RawNftEvents
  readonly #forget: () => void
  readonly #endWake: () => void
  #isClosed = false

  constructor(addon: () => Addon, ownPort: number, forget: () => void) {
    this.#forget = forget
    // At once, not with the first next(): events between the two are kept by the kernel.
    const events = openEvents(addon, ownPort)
    this.#events = events
    this.#endWake = wakeAtExit(events)
    this.#queue = new RequestQueue(() => events, 'nftables')
  }

  async next(): Promise<readonly NftChange[] | undefined> {
    while (!this.#isClosed) {
      // An empty answer is a pause of the wait.
      const bytes = await this.#queue
        .run((events) => events.next())
        .catch((error: unknown) => {
          if (this.#isClosed) return new Uint8Array(0)
          throw error
        })
      if (bytes.length > 0 && !this.#isClosed) return decodeChanges(bytes)
    }
    return undefined
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#events.close() // ends the wait in flight; any number of times
    this.#endWake()
    this.#forget()
  }
}

/** Throws KernelError. */
function openEvents(addon: () => Addon, ownPort: number): RawNftEvents {
  try {
    return new (addon().NftEvents)(ownPort)
  } catch (error) {
    throw toKernelError(error, 'nftables')
  }
}
