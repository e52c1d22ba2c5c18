import type { IpAddress } from '../../../address.js'
import { BugError, isExists, isNotFound } from '../../../errors.js'
import {
  type BatchOutcome,
  IpvsBatch,
  type IpvsDump,
  type IpvsOp,
  noRealServers,
  type OperationFailure,
  type VirtualServerKey,
} from '../../../kernel/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { DesiredVirtualServer } from '../compile/desired.js'
import { type Confirmation, type Cut, type Failed, type Drift } from '../../../engine/index.js'
import { IpvsDriftCounter } from './drift.js'
import { type ServerState, advance, diff, equalStates } from './diff.js'
import { type Conflict, type DrainPolicy, Entry, type ServerId, serverIdOf } from './entry.js'
import { PackedDump, type PackedId } from './packed.js'
import type { VipTable } from './vip-table.js'

interface Part {
  readonly entry: Entry
  /** Its operations are [from, to) of the batch. */
  readonly from: number
  readonly to: number
  readonly target: ServerState | undefined
}

/** Operations for the kernel, and what each virtual server is when all of its operations were accepted. */
export interface LedgerBatch {
  readonly ops: IpvsBatch
  readonly parts: readonly Part[]
}

/** Above this a batch is closed: some 3 ms of the kernel, while which the next one is made. */
const maxBatchOps = 1024

/** Room that a batch has before it grows: with many real servers each it has few virtual servers. */
const firstBatchRoom = 128

/** Of removals, each of which takes its real servers along. */
const maxRemovals = 4096

export type LedgerCut = Cut<LedgerBatch, Entry>

export interface AdoptOptions {
  /** Parts of the world are unknown. */
  readonly keepLeftovers: boolean
  /** Whether a set of ours says that this virtual server, whose address is not bound by us, is ours all the same. */
  readonly isMarkedOurs: (server: VirtualServerKey) => boolean
}

/** Every virtual server of one family that is ours. Work is proportional to what changed, but for `adopt`. */
export class IpvsLedger {
  readonly #vips: VipTable
  /** Addresses whose virtual servers are never removed (excludeCIDRs). */
  readonly #isExcluded: (address: IpAddress) => boolean
  readonly #drains: DrainPolicy
  readonly #entries = new Map<ServerId, Entry>()
  readonly #entriesOf = new Map<ServicePortKey, readonly Entry[]>()
  /** Those with real servers that drain. */
  readonly #draining = new Set<Entry>()
  #dirty = new Set<Entry>()
  #reconcile = 0
  #keepsLeftovers = false
  #foreignMarks: ReadonlySet<number> = new Set()
  #acknowledgedCount = 0
  /** Of the last dump, firewall marks included. */
  #foreignCount = 0
  #sampling: Iterator<Entry> | undefined

  constructor(vips: VipTable, isExcluded: (address: IpAddress) => boolean, drains: DrainPolicy) {
    this.#vips = vips
    this.#isExcluded = isExcluded
    this.#drains = drains
  }

  /** Replaces all that the route claims; an empty list releases it. */
  claim(route: ServicePortKey, service: string, desired: readonly DesiredVirtualServer[]): void {
    const entries: Entry[] = []
    for (const wish of desired) {
      const entry = this.#entryOf(wish.key)
      entry.claim(route, service, wish)
      this.#touch(entry)
      entries.push(entry)
    }
    for (const entry of this.#entriesOf.get(route) ?? []) {
      if (entries.includes(entry)) continue
      entry.release(route)
      this.#touch(entry)
    }
    if (entries.length > 0) this.#entriesOf.set(route, entries)
    else this.#entriesOf.delete(route)
  }

  /** The virtual servers that may need work; each is returned once. */
  takeDirty(): readonly Entry[] {
    const dirty = [...this.#dirty]
    this.#dirty = new Set()
    return dirty
  }

  get hasDirty(): boolean {
    return this.#dirty.size > 0
  }

  markDirty(entry: Entry): void {
    this.#dirty.add(entry)
  }

  /** Virtual servers with real servers that drain: weight 0 now or with the next batch. */
  get draining(): ReadonlySet<Entry> {
    return this.#draining
  }

  /** These real servers of the entry (`realServerId`) go: nothing is left to wait for. */
  finishDraining(entry: Entry, ids: ReadonlySet<string>): void {
    entry.finishDraining(ids)
    this.#touch(entry)
  }

  /** Conflicts among these entries, and those that ended since the last call. */
  takeConflicts(entries: readonly Entry[]): readonly Conflict[] {
    return entries.flatMap((entry) => entry.takeConflicts())
  }

  /** Of these entries, virtual servers by mark that are still to be made. */
  newMarks(entries: readonly Entry[]): readonly Entry[] {
    return entries.filter((entry) => entry.wanted !== undefined && !entry.isStale && isNewMark(entry))
  }

  /**
   * New virtual servers by mark, still without real servers: the kernel refuses a mark that somebody else has, whose virtual
   * server must not get ours.
   */
  planMarks(entries: readonly Entry[]): LedgerCut {
    return planTargets(entries, new IpvsBatch(), ({ wanted }) =>
      wanted === undefined ? undefined : { settings: wanted.settings, realServers: noRealServers },
    )
  }

  /** Everything but removals, and new virtual servers by mark, which `planMarks` makes before. */
  planUpserts(entries: readonly Entry[]): LedgerCut {
    const ops = new IpvsBatch(Math.min(2 * entries.length, firstBatchRoom))
    return planTargets(entries, ops, (entry) =>
      entry.isStale || isNewMark(entry) ? undefined : entry.wanted,
    )
  }

  /** Removals of virtual servers that nobody wants; what nobody wants and nobody has is forgotten. */
  planRemovals(entries: readonly Entry[]): LedgerCut {
    const ops = new IpvsBatch()
    const parts: Part[] = []
    let planned = 0
    for (const entry of entries) {
      if (ops.length >= maxRemovals) break
      planned++
      if (entry.wanted !== undefined || entry.isStale) continue
      const isKept = 'address' in entry.key && this.#isExcluded(entry.key.address)
      if (isKept && entry.acknowledged !== undefined) {
        entry.acknowledged = undefined
        this.#foreignCount++
      }
      if (entry.acknowledged !== undefined) pushPart(entry, { ops, parts, target: undefined })
      this.#updateNeed(entry)
    }
    return { batch: { ops, parts }, rest: entries.slice(planned) }
  }

  /** Takes in what the kernel accepted. Nothing is assumed: what it refused, or did not answer, is not acknowledged. */
  confirm(batch: LedgerBatch, outcome: BatchOutcome): Confirmation<Entry> {
    const into = { refusals: new Array<Failed<Entry>>(), surprises: new Array<Failed<Entry>>() }
    const failures = outcome.failures
    let next = 0
    for (const part of batch.parts) {
      const first = next
      while ((failures[next]?.index ?? part.to) < part.to) next++
      if (first === next) part.entry.acknowledged = part.target
      else confirmPartly(part, batch.ops, failures.slice(first, next), into)
      this.#updateNeed(part.entry)
    }
    return into
  }

  /** Nothing is known about the batch: it could not be sent, or not be accounted for. */
  disown(batch: LedgerBatch): void {
    for (const { entry } of batch.parts) entry.isStale = true
  }

  /**
   * Holds the kernel's table against the acknowledged states, which become what it says, and makes dirty what differs.
   * A virtual server that nobody wants is ours only when its address carries our binding, or a set of ours has it. With `keepLeftovers`, which
   * counts at the first call, what nobody has claimed stays until `dropLeftovers`. Marks of virtual servers that are not
   * ours are `foreignMarks` from then on.
   */
  adopt(dump: IpvsDump, { keepLeftovers, isMarkedOurs }: AdoptOptions): Drift {
    const drift = new IpvsDriftCounter()
    const packed = new PackedDump(dump)
    if (this.#reconcile === 0) this.#keepsLeftovers = keepLeftovers
    this.#reconcile++
    // Made anew each time, as nobody else needs it: claims, which are many more, do without the packed identities.
    const entries = new Map<PackedId, Entry>()
    if (packed.length > 0) for (const entry of this.#entries.values()) entries.set(entry.packedId, entry)
    const foreignMarks = new Set<number>()
    for (let index = 0; index < packed.length; index++)
      this.#adoptServer(packed, index, { entries, drift, isMarkedOurs, foreignMarks })
    this.#foreignMarks = foreignMarks
    for (const entry of this.#entries.values()) {
      if (entry.seenBy !== this.#reconcile) this.#acknowledge(entry, undefined, drift)
    }
    this.#foreignCount = packed.length - this.#acknowledgedCount
    return drift.counts
  }

  /** Whether `dropLeftovers` is owed as soon as the whole world is known. */
  get keepsLeftovers(): boolean {
    return this.#keepsLeftovers
  }

  /** The whole world is claimed: what nobody claimed of what was there at start is in nobody's use. Walks all, once. */
  dropLeftovers(): void {
    this.#keepsLeftovers = false
    for (const entry of this.#entries.values()) {
      if (!entry.hasLeftover) continue
      entry.dropLeftover()
      this.#touch(entry)
    }
  }

  /** Marks with a virtual server of somebody else, as of the last `adopt`. */
  get foreignMarks(): ReadonlySet<number> {
    return this.#foreignMarks
  }

  /** Number of virtual servers of ours that the kernel acknowledged. */
  get acknowledgedCount(): number {
    return this.#acknowledgedCount
  }

  /** Number of virtual servers that the kernel has, if nobody but us changed anything since the last dump. */
  get expectedCount(): number {
    return this.#acknowledgedCount + this.#foreignCount
  }

  /** Up to `count` acknowledged virtual servers, and the next ones at the next call: all in turn. */
  takeSample(count: number): readonly Entry[] {
    const sample: Entry[] = []
    // As many steps as there are entries, and one over their end: none comes twice.
    for (let left = this.#entries.size; left >= 0 && sample.length < count; left--) {
      this.#sampling ??= this.#entries.values()
      const { value: entry, done } = this.#sampling.next()
      if (done === true) this.#sampling = undefined
      else if (entry.acknowledged !== undefined && !entry.isStale) sample.push(entry)
    }
    return sample
  }

  /** Whether a dump that holds these, and perhaps others, says of them what was acknowledged. */
  isAsAcknowledged(entries: readonly Entry[], dump: IpvsDump): boolean {
    const packed = new PackedDump(dump)
    const indices = new Map(Array.from({ length: packed.length }, (_, index) => [packed.id(index), index]))
    return entries.every((entry) => {
      const index = indices.get(entry.packedId)
      if (index === undefined || entry.acknowledged === undefined) return false
      return packed.equals(index, entry.acknowledged)
    })
  }

  #adoptServer(
    dump: PackedDump,
    index: number,
    {
      entries,
      drift,
      isMarkedOurs,
      foreignMarks,
    }: Pick<AdoptOptions, 'isMarkedOurs'> & {
      readonly entries: ReadonlyMap<PackedId, Entry>
      readonly drift: IpvsDriftCounter
      readonly foreignMarks: Set<number>
    },
  ): void {
    let entry = entries.get(dump.id(index))
    if (entry === undefined || !isProven(entry)) {
      const key = dump.key(index)
      if (!this.#isOurs(key, isMarkedOurs)) {
        if ('mark' in key) foreignMarks.add(key.mark)
        return
      }
      entry = this.#entryOf(key)
    }
    entry.seenBy = this.#reconcile
    const expected = entry.acknowledged ?? entry.wanted
    if (expected !== undefined && dump.equals(index, expected)) {
      if (entry.acknowledged !== expected || entry.isStale) this.#acknowledge(entry, expected, drift)
      return
    }
    this.#acknowledge(entry, dump.state(index), drift)
  }

  /** Takes the kernel's word for one entry, and counts as drift what we did not expect. */
  #acknowledge(entry: Entry, state: ServerState | undefined, drift: IpvsDriftCounter): void {
    const expected = entry.acknowledged
    if (expected === undefined && state === undefined && !entry.isStale) return
    if (!entry.isStale) {
      // What nobody told us about is drift only where nobody wants it; otherwise it is adopted.
      if (expected !== undefined) drift.addRepair(diff(entry.key, state, expected))
      else if (entry.wanted === undefined) drift.add('virtual-server-unexpected')
    }
    entry.isStale = false
    entry.isForeign = false
    entry.acknowledged = state
    entry.resettle()
    const isAtStart = this.#keepsLeftovers && this.#reconcile === 1
    if (isAtStart && state !== undefined && state !== entry.wanted) entry.keepLeftover(state)
    this.#touch(entry)
  }

  #isOurs(key: Entry['key'], isMarkedOurs: AdoptOptions['isMarkedOurs']): boolean {
    // Later the set has the marks that this process chose, and the ledger knows which virtual servers it made.
    if ('mark' in key) return this.#reconcile === 1 && isMarkedOurs(key)
    if (this.#isExcluded(key.address)) return false
    return this.#vips.carriesOurBinding(key.address) || isMarkedOurs(key)
  }

  #entryOf(key: Entry['key']): Entry {
    const id = serverIdOf(key)
    let entry = this.#entries.get(id)
    if (entry === undefined) {
      entry = new Entry(key, id, this.#drains)
      this.#entries.set(id, entry)
    }
    return entry
  }

  #touch(entry: Entry): void {
    this.#dirty.add(entry)
    this.#updateNeed(entry)
  }

  #updateNeed(entry: Entry): void {
    const { needsAddress } = entry
    if (needsAddress !== entry.holdsAddress) {
      entry.holdsAddress = needsAddress
      const { key } = entry
      if ('mark' in key) throw new BugError(`${entry.id} has no address to bind`)
      if (needsAddress) this.#vips.need(key.address, entry)
      else this.#vips.release(key.address, entry)
    }
    if (entry.draining.size > 0) this.#draining.add(entry)
    else if (this.#draining.size > 0) this.#draining.delete(entry)
    const isAcknowledged = entry.acknowledged !== undefined
    if (isAcknowledged !== entry.isCounted) this.#acknowledgedCount += isAcknowledged ? 1 : -1
    entry.isCounted = isAcknowledged
    // An entry that was forgotten may still be dirty, and its successor must stay.
    const isForgettable = entry.isUnused && !entry.isStale && this.#entries.get(entry.id) === entry
    if (isForgettable) this.#entries.delete(entry.id)
  }
}

function isNewMark({ key, acknowledged }: Entry): boolean {
  return 'mark' in key && acknowledged === undefined
}

/** Whether a virtual server in the kernel is ours as soon as the ledger has this entry for it. Anyone may choose a mark. */
function isProven({ key, acknowledged, isStale, isForeign }: Entry): boolean {
  return !('mark' in key) || acknowledged !== undefined || (isStale && !isForeign)
}

/** Brings as many of the entries as fit a batch to their targets; undefined: nothing is to be done. */
function planTargets(
  entries: readonly Entry[],
  ops: IpvsBatch,
  targetOf: (entry: Entry) => ServerState | undefined,
): LedgerCut {
  const parts: Part[] = []
  let planned = 0
  for (const entry of entries) {
    if (ops.length >= maxBatchOps) break
    planned++
    const target = targetOf(entry)
    if (target !== undefined) pushPart(entry, { ops, parts, target })
  }
  return { batch: { ops, parts }, rest: entries.slice(planned) }
}

function pushPart(
  entry: Entry,
  {
    ops,
    parts,
    target,
  }: { readonly ops: IpvsBatch; readonly parts: Part[]; readonly target: ServerState | undefined },
): void {
  const { key, acknowledged } = entry
  if (acknowledged === target) return
  const from = ops.length
  if (acknowledged === undefined && target !== undefined) {
    // What diff() would say, without an object for each: most of a first sync.
    ops.addVirtualServer(key, target.settings, target.realServers)
  } else {
    for (const op of diff(key, acknowledged, target)) ops.push(op)
  }
  if (ops.length > from) parts.push({ entry, from, to: ops.length, target })
}

/** Replays the operations of a part one by one, as some failed. */
function confirmPartly(
  part: Part,
  ops: IpvsBatch,
  failures: readonly OperationFailure[],
  { refusals, surprises }: { readonly refusals: Failed<Entry>[]; readonly surprises: Failed<Entry>[] },
): void {
  const { entry } = part
  const byIndex = new Map(failures.map((failure) => [failure.index, failure]))
  let state = entry.acknowledged
  for (let index = part.from; index < part.to; index++) {
    const op = ops.at(index)
    const failure = byIndex.get(index)
    if (op === undefined) continue
    const meaning = failure === undefined ? 'done' : meaningOf(op, failure, state)
    if (meaning === 'done') state = advance(state, op)
    if (meaning === 'stale') entry.isStale = true
    if (op.op === 'add-virtual-server' && failure !== undefined && isExists(failure.error))
      entry.isForeign = 'mark' in entry.key
    if (failure === undefined) continue
    if (meaning === 'refused') refusals.push({ target: entry, error: failure.error })
    if (meaning === 'stale') surprises.push({ target: entry, error: failure.error })
  }
  // Equal to the target when only removals of absent things failed: one object is enough.
  const isTarget = state !== undefined && part.target !== undefined && equalStates(state, part.target)
  entry.acknowledged = isTarget ? part.target : state
}

type Meaning = 'done' | 'stale' | 'refused' | 'consequence'

/** What a failure says about the kernel's state (spec/kernel.md 2.1, errors). `state` is the one before the operation. */
function meaningOf(op: IpvsOp, failure: OperationFailure, state: ServerState | undefined): Meaning {
  const { error } = failure
  if (failure.unknown) return 'stale'
  switch (op.op) {
    case 'remove-virtual-server':
      return isNotFound(error) ? 'done' : 'refused'
    case 'add-virtual-server':
      return isExists(error) ? 'stale' : 'refused'
    case 'remove-real-server':
      // ESRCH: the virtual server itself is gone.
      if (error.code === 'ENOENT') return 'done'
      return error.code === 'ESRCH' ? 'stale' : 'refused'
    case 'add-real-server':
    case 'set-real-server':
      // Without the virtual server, whose own failure was reported, nothing else can work.
      if (error.code === 'ESRCH' && state === undefined) return 'consequence'
      return isExists(error) || isNotFound(error) ? 'stale' : 'refused'
    case 'set-virtual-server':
    case 'zero-virtual-server':
      // ENOENT is an unknown scheduler.
      return error.code === 'ESRCH' ? 'stale' : 'refused'
  }
}
