import type { IpAddress } from '../../../address.js'
import { BugError } from '../../../errors.js'
import {
  type BatchOutcome,
  IpvsBatch,
  type IpvsDump,
  noRealServers,
  type RealServerList,
  type VirtualServerKey,
} from '../../../kernel/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { DesiredVirtualServer, ServerState } from '../compile/desired.js'
import {
  type Confirmation,
  type Cut,
  type Drift,
  Holdings,
  type ObjectBatch,
  ObjectTable,
  confirmBatch,
  planBatch,
} from '../../objects/index.js'
import { IpvsDriftCounter } from './drift.js'
import { type DrainPolicy, Entry, type ServerId, serverIdOf } from './entry.js'
import { PackedDump, type PackedId } from './packed.js'
import { isNewMark, isProven, planServer, serverKind } from './server-kind.js'
import type { VipTable } from '../../vips/index.js'

/** Operations for the kernel, and the state of each virtual server when all of its operations were accepted. */
export type LedgerBatch = ObjectBatch<Entry, ServerState | undefined, IpvsBatch>
export type LedgerCut = Cut<LedgerBatch, Entry>

/** A batch of at least this many operations is closed. The kernel works on it for some 3 ms, while the next one is made. */
const maxBatchOps = 1024

/** Greatest capacity, in operations, that a batch starts with. It grows: few virtual servers may have many real servers. */
const firstBatchRoom = 128

/** Greatest number of removals in a batch. Each removes the real servers too. */
const maxRemovals = 4096

export interface AdoptOptions {
  /** Not all objects are known. */
  readonly keepLeftovers: boolean
  /** Whether a set of ours proves that this virtual server is ours, although its address has no binding of ours. */
  readonly isMarkedOurs: (server: VirtualServerKey) => boolean
}

interface Reading extends Pick<AdoptOptions, 'isMarkedOurs'> {
  readonly dump: PackedDump
  readonly entries: ReadonlyMap<PackedId, Entry>
  readonly drift: IpvsDriftCounter
  /** Gets the marks of foreign virtual servers. */
  readonly foreignMarks: Set<number>
}

/** All virtual servers of one family that are ours. Work is proportional to the changes, except in `adopt`. */
export class IpvsLedger {
  readonly #vips: VipTable
  /** Addresses whose virtual servers are never removed (excludeCIDRs). */
  readonly #isExcluded: (address: IpAddress) => boolean
  readonly #drains: DrainPolicy
  readonly #table = new ObjectTable<ServerId, Entry>()
  readonly #holdings = new Holdings<ServicePortKey, Entry>()
  /** Virtual servers with real servers that drain. */
  readonly #draining = new Set<Entry>()
  #foreignMarks: ReadonlySet<number> = new Set()
  /** Number of foreign virtual servers in the last dump, firewall marks included, and of those given up since. */
  #foreignCount = 0

  constructor(vips: VipTable, isExcluded: (address: IpAddress) => boolean, drains: DrainPolicy) {
    this.#vips = vips
    this.#isExcluded = isExcluded
    this.#drains = drains
  }

  /** Replaces all claims of the route; an empty list releases it. `service`: its Service, for messages. */
  claim(route: ServicePortKey, service: string | undefined, desired: readonly DesiredVirtualServer[]): void {
    const entries: Entry[] = []
    for (const server of desired) {
      const entry = this.#entryOf(server.key)
      entry.claim({ route, service: service ?? '' }, server)
      this.#touch(entry)
      entries.push(entry)
    }
    for (const entry of this.#holdings.replace(route, entries)) {
      // The virtual server of another route has moved.
      if (entry.route !== route || entries.includes(entry)) continue
      entry.release()
      this.#touch(entry)
    }
  }

  /** The virtual servers that may need work; each is returned once. */
  takeDirty(): readonly Entry[] {
    return this.#table.takeDirty()
  }

  get hasDirty(): boolean {
    return this.#table.dirty.size > 0
  }

  markDirty(entry: Entry): void {
    this.#table.markDirty(entry)
  }

  /** Virtual servers with real servers that drain: weight 0 now or with the next batch. */
  get draining(): ReadonlySet<Entry> {
    return this.#draining
  }

  /** Only these real servers of the entry still drain: the others are to be removed. */
  keepDraining(entry: Entry, still: RealServerList): void {
    entry.keepDraining(still)
    this.#touch(entry)
  }

  /** The virtual servers by mark among these entries that are still to be made. */
  newMarks(entries: readonly Entry[]): readonly Entry[] {
    return entries.filter((entry) => entry.wanted !== undefined && !entry.isStale && isNewMark(entry))
  }

  /**
   * New virtual servers by mark, still without real servers: the kernel refuses a mark that another program uses, whose virtual
   * server must not get our real servers.
   */
  planMarks(entries: readonly Entry[]): LedgerCut {
    return planBatch(serverKind, entries, {
      ops: new IpvsBatch(),
      limit: maxBatchOps,
      targetOf: ({ acknowledged, wanted }) =>
        wanted === undefined ? acknowledged : { settings: wanted.settings, realServers: noRealServers },
    })
  }

  /** All operations except removals, and except new virtual servers by mark, which `planMarks` makes before. */
  planUpserts(entries: readonly Entry[]): LedgerCut {
    return planBatch(serverKind, entries, {
      ops: new IpvsBatch(Math.min(2 * entries.length, firstBatchRoom)),
      limit: maxBatchOps,
      targetOf: (entry) => (isNewMark(entry) ? entry.acknowledged : (entry.wanted ?? entry.acknowledged)),
    })
  }

  /** Removals of unwanted virtual servers. Gives up excluded ones instead, and forgets entries that are unwanted and absent. */
  planRemovals(entries: readonly Entry[]): LedgerCut {
    const cut = planBatch(serverKind, entries, {
      ops: new IpvsBatch(),
      limit: maxRemovals,
      targetOf: (entry) => {
        if (entry.wanted === undefined && this.#isKept(entry)) this.#giveUp(entry)
        return entry.wanted === undefined ? undefined : entry.acknowledged
      },
    })
    for (const entry of entries.slice(0, entries.length - cut.rest.length))
      if (entry.wanted === undefined) this.#settle(entry)
    return cut
  }

  /** Enters the operations that the kernel accepted. A refused or unanswered operation is not acknowledged. */
  confirm(batch: LedgerBatch, outcome: BatchOutcome): Confirmation<Entry> {
    const confirmation = confirmBatch(serverKind, batch, outcome)
    for (const { object } of batch.parts) this.#settle(object)
    return confirmation
  }

  /**
   * Enters the kernel's virtual servers that are ours, and makes those dirty that differ. A virtual server that the ledger does not
   * know is ours only if its address is not excluded, and carries our binding or is named by a set of ours. With `keepLeftovers`,
   * which counts at the first call, it stays until `dropLeftovers`. Sets `foreignMarks`.
   */
  adopt(ipvs: IpvsDump, { keepLeftovers, isMarkedOurs }: AdoptOptions): Drift {
    const dump = new PackedDump(ipvs)
    this.#table.beginReading({ keepLeftovers })
    const drift = new IpvsDriftCounter()
    // This map is made for each reading: claims are more frequent and do not need packed identities.
    const entries = new Map<PackedId, Entry>()
    if (dump.length > 0) for (const entry of this.#table.values()) entries.set(entry.packedId, entry)
    const foreignMarks = new Set<number>()
    for (let index = 0; index < dump.length; index++)
      this.#adoptServer(index, { dump, entries, drift, isMarkedOurs, foreignMarks })
    this.#foreignMarks = foreignMarks
    for (const entry of this.#table.values())
      if (!this.#table.isSeen(entry)) this.#acknowledge(entry, undefined, drift)
    this.#foreignCount = dump.length - this.#table.acknowledgedCount
    return drift.counts
  }

  /** Whether `dropLeftovers` is due as soon as all Services are known. */
  get keepsLeftovers(): boolean {
    return this.#table.keepsLeftovers
  }

  /** All Services are known: former virtual servers that no route claimed are unwanted. Walks all, once. */
  dropLeftovers(): void {
    for (const entry of this.#table.dropLeftovers()) this.#settle(entry)
  }

  /** Marks of other programs' virtual servers, as of the last `adopt`. */
  get foreignMarks(): ReadonlySet<number> {
    return this.#foreignMarks
  }

  /** Number of our virtual servers that the kernel acknowledged. */
  get acknowledgedCount(): number {
    return this.#table.acknowledgedCount
  }

  /** Number of virtual servers that the kernel has, if no other program changed anything since the last dump. */
  get expectedCount(): number {
    return this.#table.acknowledgedCount + this.#foreignCount
  }

  /** Up to `count` acknowledged virtual servers, and the next ones at the next call: all in turn. */
  takeSample(count: number): readonly Entry[] {
    return this.#table.takeSample(count)
  }

  #adoptServer(index: number, { dump, entries, drift, isMarkedOurs, foreignMarks }: Reading): void {
    let entry = entries.get(dump.id(index))
    if (entry === undefined || !isProven(entry)) {
      const key = dump.key(index)
      if (!this.#isOurs(key, isMarkedOurs)) {
        if ('mark' in key) foreignMarks.add(key.mark)
        return
      }
      entry = this.#entryOf(key)
    }
    this.#table.see(entry)
    const expected = entry.acknowledged ?? entry.wanted
    if (expected !== undefined && dump.equals(index, expected)) {
      if (entry.acknowledged !== expected || entry.isStale) this.#acknowledge(entry, expected, drift)
      return
    }
    this.#acknowledge(entry, dump.state(index), drift)
  }

  /** Enters the kernel's state, and counts a difference as drift. */
  #acknowledge(entry: Entry, state: ServerState | undefined, drift: IpvsDriftCounter): void {
    const expected = entry.acknowledged
    if (expected === undefined && state === undefined && !entry.isStale) return
    if (!entry.isStale) {
      // An unknown virtual server is drift only when no route wants it; otherwise it is adopted.
      if (expected !== undefined) drift.addRepair(repairOf(entry.key, state, expected))
      else if (entry.wanted === undefined) drift.add('virtual-server-unexpected')
    }
    entry.isStale = false
    entry.isForeign = false
    entry.acknowledged = state
    entry.resettle()
    const isAtStart = this.#table.keepsLeftovers && this.#table.isFirstReading
    if (isAtStart && state !== undefined && state !== entry.wanted) entry.keepLeftover(state)
    this.#touch(entry)
  }

  #isOurs(key: Entry['key'], isMarkedOurs: AdoptOptions['isMarkedOurs']): boolean {
    // After the first reading the set has marks that this process chose, and the ledger knows the virtual servers that it made.
    if ('mark' in key) return this.#table.isFirstReading && isMarkedOurs(key)
    if (this.#isExcluded(key.address)) return false
    return this.#vips.carriesOurBinding(key.address) || isMarkedOurs(key)
  }

  #entryOf(key: Entry['key']): Entry {
    const id = serverIdOf(key)
    return this.#table.get(id) ?? this.#table.add(new Entry(key, id, this.#drains))
  }

  /** Whether the entry must never be removed (excludeCIDRs). */
  #isKept({ key, acknowledged }: Entry): boolean {
    return acknowledged !== undefined && 'address' in key && this.#isExcluded(key.address)
  }

  /** The virtual server stays in the kernel, and is foreign from then on. */
  #giveUp(entry: Entry): void {
    entry.acknowledged = undefined
    this.#foreignCount++
  }

  #touch(entry: Entry): void {
    this.#table.markDirty(entry)
    this.#settle(entry)
  }

  /** Takes in that the entry changed. */
  #settle(entry: Entry): void {
    const { needsAddress } = entry
    if (needsAddress !== entry.holdsAddress) {
      entry.holdsAddress = needsAddress
      const { key } = entry
      if ('mark' in key) throw new BugError(`${entry.id} has no address to bind`)
      if (needsAddress) this.#vips.need(key.address, entry)
      else this.#vips.release(key.address, entry)
    }
    if (entry.isDraining) this.#draining.add(entry)
    else if (this.#draining.size > 0) this.#draining.delete(entry)
    this.#table.settle(entry)
  }
}

/** The operations that lead one virtual server from the kernel's state back to the acknowledged one. */
function repairOf(server: VirtualServerKey, from: ServerState | undefined, to: ServerState): IpvsBatch {
  const repair = new IpvsBatch()
  planServer(repair, server, from, to)
  return repair
}
