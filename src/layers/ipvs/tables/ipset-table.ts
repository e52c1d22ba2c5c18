// The desired entries of one family's sets, their holders, and the entries that the kernel acknowledged.
import { isDeepStrictEqual } from 'node:util'
import type { IpFamily } from '../../../address.js'
import {
  type BatchOutcome,
  type IpsetEntry,
  IpsetEntryCursor,
  ipsetEntryLayout,
  type IpsetHeader,
  type IpsetOp,
} from '../../../kernel/index.js'
import { type DesiredSetEntry, forbiddingSets, type SetKey } from '../compile/sets.js'
import type { UnfitSets } from '../compile/chains.js'
import { confirmBatch, type Drift, Holdings, type ObjectBatch, planBatch } from '../../objects/index.js'
import { IpvsDriftCounter } from './drift.js'
import { AcknowledgedSets } from './ipset-answers.js'
import { type SetBatch, SetChanges } from './ipset-changes.js'
import { type CarriedMark, carriedMarkAt, type EntryId, entryIdAt } from './ipset-id.js'
import { absent, entryKind, markOf, type Member, type SetState } from './ipset-set.js'
import { bufferOver } from '../../vips/index.js'

/** A holder of entries: a virtual server of the ledger, or the mode itself. */
export type SetHolder = object | string

/** Operations for the kernel: on sets, or on entries. */
export type IpsetBatch = SetBatch | ObjectBatch<Member, CarriedMark, IpsetOp[]>

/** A set in a dump. */
export interface DumpedSet {
  readonly header: IpsetHeader
  /** Packed, as Ipset.entries() gives them; empty also if the set is not of our type, whose entries are not read. */
  readonly entries: Uint8Array
}

const noGaps: UnfitSets = { unusable: new Set(), incomplete: new Set() }

/** Greatest number of operations in a batch, which takes the kernel some milliseconds. Other work gets its turn afterwards. */
const maxBatchOps = 4096

/** The sets of one family. Work is proportional to the changes, except in `adopt` and for a set that is made again. */
export class IpsetTable extends AcknowledgedSets {
  readonly #markMask: number
  readonly #holdings = new Holdings<SetHolder, Member>()
  readonly #changes: SetChanges
  #isAdopted = false

  /** `markMask`: the mask with which marks of entries are written. An entry whose mark has another mask is written again. */
  constructor(family: IpFamily, markMask: number) {
    super(family)
    this.#markMask = markMask
    this.#changes = new SetChanges(family, this.inOrder)
  }

  /** False: the kernel was not read yet, and nothing may be planned. */
  get isAdopted(): boolean {
    return this.#isAdopted
  }

  /** Replaces all desired entries of the holder; an empty list releases it. */
  want(holder: SetHolder, desired: readonly DesiredSetEntry[]): void {
    // A change of endpoints changes no entry, nearly always.
    const held = this.#holdings.heldBy(holder)
    if (held.length === desired.length && desired.every((each, index) => isHeldAs(each, held[index]))) return
    const members = desired.map(({ set, entry }) => this.#hold(set, entry))
    for (const member of this.#holdings.replace(holder, members)) this.#release(member)
  }

  /**
   * Operations on sets that must precede operations on entries: for sets that are missing, too small, or of other settings. Call it
   * until it returns none. A set that the kernel refuses is left out until `retry` or the next `adopt`.
   */
  planSets(): IpsetBatch {
    return this.#changes.plan(maxBatchOps)
  }

  /** Adds of desired entries that are missing. Call it until it returns none. */
  planAdds(): IpsetBatch {
    const missing = this.#takeDue(this.inOrder, (member) => member.isMissing)
    return this.#plan(missing, ({ entry }) => markOf(entry))
  }

  /** Deletes of entries that are not desired, in all sets or in these. Call it until it returns none. */
  planDeletes(keys?: ReadonlySet<SetKey>): IpsetBatch {
    const sets = this.inOrder.filter(({ key }) => keys?.has(key) ?? true).toReversed()
    return this.#plan(
      this.#takeDue(sets, (member) => member.isSurplus),
      () => absent,
    )
  }

  /** Enters the operations that the kernel accepted. A refusal is a problem of its set, listed until a retry succeeds. */
  confirm(batch: IpsetBatch, outcome: BatchOutcome): void {
    if ('steps' in batch) return this.#changes.confirm(batch, outcome)
    confirmBatch(entryKind, batch, outcome)
    for (const { object } of batch.parts) object.set.noteAnswer(object)
  }

  /** The kernel's answers show that a set differs from the acknowledged state: read the sets. */
  get isStale(): boolean {
    return this.inOrder.some((set) => set.isStale)
  }

  /** Sets without their desired content, as the kernel refuses it. */
  get failedSets(): readonly SetState[] {
    return this.inOrder.filter(({ failure }) => failure !== undefined)
  }

  /** Refused operations of this set may be planned again. */
  retry(set: SetState): void {
    set.wake()
    this.#changes.giveUp(set)
  }

  /** Ends a pass. The next change of a set by another program counts as the first one again, if the set is in order now. */
  endPass(): void {
    for (const set of this.inOrder) if (set.failure === undefined && !set.isStale) set.wasStale = false
  }

  /** The sets with missing content; the same object while there are none. */
  get gaps(): UnfitSets {
    const { failedSets } = this
    if (failedSets.length === 0) return noGaps
    const unusable = failedSets.filter(({ isOurs }) => !isOurs)
    const incomplete = failedSets.filter(({ isOurs, waiting }) => !isOurs || waiting.size > 0)
    return {
      unusable: new Set(unusable.map(({ key }) => key)),
      incomplete: new Set(incomplete.map(({ key }) => key)),
    }
  }

  /**
   * Enters every set and entry that the kernel has. With `keepLeftovers`, which counts at the first call, entries without a holder
   * stay until `dropLeftovers`.
   */
  adopt(dumped: ReadonlyMap<SetKey, DumpedSet>, options: { readonly keepLeftovers: boolean }): Drift {
    const drift = new IpvsDriftCounter()
    this.#changes.giveUp()
    for (const [key, set] of this.sets) {
      set.members.beginReading(options)
      this.#adoptSet(set, dumped.get(key), drift)
    }
    this.#isAdopted = true
    return drift.counts
  }

  /** All Services are known: former entries without a holder are unwanted. Walks all entries, once. */
  dropLeftovers(): void {
    for (const { members } of this.inOrder) members.dropLeftovers()
  }

  /** Whether the headers are those of the acknowledged sets. A set may still have other entries in the same number. */
  isLike(headers: readonly IpsetHeader[]): boolean {
    const byName = new Map(headers.map((header) => [header.name, header]))
    return this.inOrder.every((set) => set.isLike(byName.get(set.name)))
  }

  #hold(key: SetKey, entry: IpsetEntry): Member {
    const member = this.set(key).member(entry)
    member.entry = entry
    member.isLeftover = false
    member.holders++
    if (member.isMissing && !member.set.waiting.has(member)) member.set.members.markDirty(member)
    return member
  }

  #release(member: Member): void {
    member.holders--
    if (member.holders === 0) member.set.members.markDirty(member)
  }

  #plan(members: readonly Member[], targetOf: (member: Member) => CarriedMark): IpsetBatch {
    return planBatch(entryKind, members, { ops: [], limit: maxBatchOps, targetOf }).batch
  }

  /**
   * The next dirty members that are due, as many as fill a batch. They stay dirty until the kernel answers. They are in the order
   * of sets: entries of one set go into one message.
   */
  #takeDue(sets: readonly SetState[], isDue: (member: Member) => boolean): readonly Member[] {
    const due: Member[] = []
    for (const set of sets) {
      for (const member of set.members.dirty) {
        if (due.length >= maxBatchOps) return due
        if (!member.isMissing && !member.isSurplus) set.settle(member)
        else if (!set.isWritable) set.wait(member)
        else if (isDue(member)) due.push(member)
      }
    }
    return due
  }

  #adoptSet(set: SetState, dumped: DumpedSet | undefined, drift: IpvsDriftCounter): void {
    const { members } = set
    const before = members.acknowledgedCount
    if (this.#isAdopted && dumped === undefined && set.need !== 'create') drift.add('set-missing')
    set.see(dumped?.header)
    const bytes = dumped !== undefined && set.isOfOurType ? bufferOver(dumped.entries) : Buffer.alloc(0)
    if (set.reading?.equals(bytes) === true) return
    const kept = this.#adoptEntries(set, bytes, drift)
    if (kept !== before) {
      for (const member of members.values()) {
        if (members.isSeen(member) || !member.isAcknowledged) continue
        if (dumped !== undefined) drift.add('set-entry-missing')
        set.lose(member)
      }
    }
    set.reading = bytes
  }

  /** Compares bytes, and makes objects only for changes. Returns the number of acknowledged entries that still exist. */
  #adoptEntries(set: SetState, bytes: Buffer, drift: IpvsDriftCounter): number {
    const { type, members } = set
    let kept = 0
    for (let at = 0; at < bytes.length; at += ipsetEntryLayout.size) {
      const id = entryIdAt(type, this.family, bytes, at)
      const mark = carriedMarkAt(bytes, at, this.#markMask)
      const member = members.get(id)
      if (member?.isAcknowledged === true && !members.isSeen(member)) kept++
      if (member?.acknowledged === mark) members.see(member)
      else this.#adoptEntry(member ?? newMember(set, id, bytes.subarray(at)), mark, drift)
    }
    return kept
  }

  #adoptEntry(member: Member, mark: CarriedMark, drift: IpvsDriftCounter): void {
    const { members, key } = member.set
    const wasThere = member.isAcknowledged
    members.see(member)
    member.acknowledged = mark
    members.settle(member)
    if (this.#isAdopted && wasThere) drift.add('set-entry-changed')
    else if (this.#isAdopted && member.holders === 0) drift.add('set-entry-unexpected')
    if (!this.#isAdopted && member.holders === 0)
      // A former entry must not block a Service that is known.
      member.isLeftover = members.keepsLeftovers && !forbiddingSets.has(key)
    if (member.isMissing || member.isSurplus) members.markDirty(member)
  }
}

function isHeldAs({ set, entry }: DesiredSetEntry, member: Member | undefined): boolean {
  return member?.set.key === set && isDeepStrictEqual(entry, member.entry)
}

function newMember(set: SetState, id: EntryId, record: Buffer): Member {
  const cursor = new IpsetEntryCursor(record.subarray(0, ipsetEntryLayout.size), set.type)
  return set.member(cursor.entry(0), id)
}
