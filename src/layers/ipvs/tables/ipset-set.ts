// One set, its entries, and the operations that change them.
import type { IpFamily } from '../../../address.js'
import { type Meaning, type ObjectKind, ObjectTable, type TrackedObject } from '../../objects/index.js'
import type { KernelError } from '../../../errors.js'
import type {
  IpsetEntry,
  IpsetHeader,
  IpsetOp,
  IpsetSettings,
  IpsetType,
  OperationFailure,
} from '../../../kernel/index.js'
import { type SetKey, setName, setSpec } from '../compile/sets.js'
import { type CarriedMark, type EntryId, entryIdOf } from './ipset-id.js'

/** kube-proxy's size. A smaller set saves next to nothing. */
const leastElements = 65_536
const leastBuckets = 1024

/**
 * Codes that show that another program changed the kernel's set, or that it does not exist. EINVAL is the answer of nfnetlink in a
 * kernel without ip_set.
 */
const surprising: ReadonlySet<string> = new Set(['ENOENT', 'EINVAL', 'EEXIST', 'EPROTONOSUPPORT'])

/** The change that a set needs before entries can be added. */
export type SetNeed = 'nothing' | 'create' | 'replace' | 'exchange'

/** The reason why the kernel does not hold the desired content of a set. */
export interface SetFailure {
  /** The first error: the others are usually the same. */
  readonly error: KernelError
  /** Number of entries that the kernel refused; 0: the set itself could not be made. */
  readonly entries: number
}

type Present = Pick<IpsetHeader, 'type' | 'family' | 'maxElements' | 'hasMarks' | 'hasComments'> & {
  readonly references?: number
}

/** One set of one family. */
export class SetState {
  readonly key: SetKey
  readonly name: string
  readonly type: IpsetType
  readonly members = new ObjectTable<EntryId, Member>()
  /** Members whose operation the kernel refused, or whose set does not exist; they are dirty again after `wake`. */
  readonly waiting = new Set<Member>()
  /**
   * The last dump, while it equals the acknowledged state: an unchanged set is dumped in the same order, and comparing its bytes is
   * faster than comparing entries. 52 bytes per entry.
   */
  reading: Buffer | undefined
  failure: SetFailure | undefined
  /** The kernel's answers show that another program changed the set: no operation is planned before it is read. */
  isStale = false
  /** The set was read for that reason; another such answer is a problem. Reset at the end of a pass that finds the set in order. */
  wasStale = false
  readonly #family: IpFamily
  readonly #hasMarks: boolean
  /** The set in the kernel; undefined: there is no such set. */
  #present: Present | undefined
  #presentSettings: IpsetSettings | undefined
  /** undefined: the set in the kernel, or the number of members, has changed. */
  #need: SetNeed | undefined

  constructor(key: SetKey, family: IpFamily) {
    const { type, hasMarks = false } = setSpec(key)
    this.key = key
    this.type = type
    this.name = setName(key, family)
    this.#family = family
    this.#hasMarks = hasMarks
  }

  /** The maker of a set chooses its size, but its other settings must equal ours. Each pass asks all sets, most of which have not changed. */
  get need(): SetNeed {
    return (this.#need ??= this.#findNeed())
  }

  #findNeed(): SetNeed {
    const present = this.#present
    if (present === undefined) return 'create'
    if (!this.isOfOurType) return 'replace'
    const isRoomy = this.type === 'bitmap:port' || this.members.size <= present.maxElements
    return isRoomy && this.isOurs ? 'nothing' : 'exchange'
  }

  /** Whether the set has our type and family; it may lack our marks. */
  get isOfOurType(): boolean {
    const present = this.#present
    if (present?.type !== this.type) return false
    return this.type === 'bitmap:port' || present.family === this.#family
  }

  /** Whether the kernel's set can hold our content: it has our type, family and marks. */
  get isOurs(): boolean {
    return this.isOfOurType && this.#present?.hasMarks === this.#hasMarks
  }

  /**
   * Whether entries of the set may be written. In another program's set, the kernel would keep only the parts of an entry that its
   * type needs.
   */
  get isWritable(): boolean {
    return this.isOurs && !this.isStale
  }

  /** The type of another program's set of this name, as the kernel calls it. */
  get foreignType(): string | undefined {
    const present = this.#present
    if (present === undefined || this.isOurs) return undefined
    const family =
      present.family === undefined || present.family === this.#family ? '' : ` of ${present.family}`
    return `${present.type}${present.hasMarks ? ' with marks' : ''}${family}`
  }

  /** The greatest number of entries of the kernel's set. */
  get capacity(): number {
    return this.#present?.maxElements ?? 0
  }

  /** Whether the header is the header of an unchanged set. */
  isLike(header: IpsetHeader | undefined): boolean {
    const present = this.#present
    if (header === undefined || present === undefined) return header === present
    if (header.type !== present.type || header.family !== present.family) return false
    if (this.isOurs) return header.elements === this.members.acknowledgedCount
    // For a foreign set, only the removal of its last reference matters: its name may be free now.
    return header.references > 0 || present.references === 0
  }

  /** The settings for a new set. It has room for twice its desired entries, so that a growing set is not made again at each step. */
  get settings(): IpsetSettings {
    const wanted = 2 * this.members.size
    const isBitmap = this.type === 'bitmap:port'
    return {
      name: this.name,
      type: this.type,
      family: isBitmap ? 'ipv4' : this.#family,
      maxElements: isBitmap ? leastElements : Math.max(leastElements, powerOfTwo(wanted)),
      hashSize: isBitmap ? leastBuckets : Math.max(leastBuckets, powerOfTwo(wanted)),
      hasMarks: this.#hasMarks,
      hasComments: false,
    }
  }

  /**
   * The settings for writing entries. The type counts, not the size. NB: always the same object, as the entries of one set go into
   * one message.
   */
  get presentSettings(): IpsetSettings {
    this.#presentSettings ??= { ...this.settings, hasComments: this.#present?.hasComments ?? false }
    return this.#presentSettings
  }

  /** Enters the kernel's header of the set; undefined: the kernel does not have the set. */
  see(header: IpsetHeader | undefined): void {
    this.#present = header
    this.#presentSettings = undefined
    this.#need = undefined
    this.wasStale ||= this.isStale
    this.isStale = false
    this.wake()
  }

  /** The set was made with our settings. */
  made(settings: IpsetSettings): void {
    this.#present = { ...settings, family: this.type === 'bitmap:port' ? undefined : settings.family }
    this.#presentSettings = undefined
    this.#need = undefined
    this.isStale = false
    this.wake()
  }

  /** Refused operations may be tried again. */
  wake(): void {
    this.failure = undefined
    for (const member of this.waiting) this.members.markDirty(member)
    this.waiting.clear()
  }

  idOf(entry: IpsetEntry): EntryId {
    return entryIdOf(this.type, this.#family, entry)
  }

  member(entry: IpsetEntry, id = this.idOf(entry)): Member {
    const found = this.members.get(id)
    if (found !== undefined) return found
    this.#need = undefined
    return this.members.add(new Member(this, id, entry))
  }

  /** The kernel does not have the set, and so none of its entries. */
  loseEntries(): void {
    for (const member of this.members.values()) this.lose(member)
  }

  /** The kernel does not have the entry. */
  lose(member: Member): void {
    this.reading = undefined
    member.acknowledged = absent
    if (member.isMissing) this.members.markDirty(member)
    this.settle(member)
  }

  /** A batch with an operation on the entry was answered. */
  noteAnswer(member: Member): void {
    this.reading = undefined
    this.settle(member)
  }

  /** The entry changed. It is clean, or forgotten, if there is no work for it. */
  settle(member: Member): void {
    if (!member.isMissing && !member.isSurplus) {
      this.members.markClean(member)
      this.waiting.delete(member)
    }
    this.members.settle(member)
    this.#need = undefined
  }

  /** The entry waits for `wake`. */
  wait(member: Member): void {
    this.members.markClean(member)
    this.waiting.add(member)
  }

  /** The kernel refused an operation on the entry, or did not answer. */
  noteRefusal(member: Member, failure: OperationFailure): void {
    this.wait(member)
    this.noteFailure(failure, 1)
  }

  /**
   * A set that another program changed is read first. A failure that remains after the reading is the set's problem. `entries`:
   * number of entries that the kernel refused.
   */
  noteFailure({ error, unknown }: OperationFailure, entries: number): void {
    const isSurprise = (unknown || surprising.has(error.code)) && this.failure === undefined
    if (isSurprise && (this.isStale || !this.wasStale)) this.isStale = true
    else this.#blame(error, entries)
  }

  #blame(error: KernelError, entries: number): void {
    const { failure } = this
    this.failure = { error: failure?.error ?? error, entries: (failure?.entries ?? 0) + entries }
  }
}

function powerOfTwo(atLeast: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, atLeast)))
}

/** Acknowledged state of an entry that the kernel does not have. */
export const absent: CarriedMark = -1

/** One entry: its number of holders, and the state that the kernel acknowledged. */
export class Member implements TrackedObject<EntryId, CarriedMark> {
  readonly set: SetState
  readonly id: EntryId
  /** The entry as its holders desire it; without holders, as the kernel has it. */
  entry: IpsetEntry
  /** Number of claims: several virtual servers may desire one entry. */
  holders = 0
  /** The entry's mark in the kernel; `absent`: the kernel does not have the entry. */
  acknowledged: CarriedMark = absent
  /** Always false: a set is stale as a whole (`SetState.isStale`). */
  isStale = false
  isLeftover = false
  isCounted = false
  seenIn = 0

  constructor(set: SetState, id: EntryId, entry: IpsetEntry) {
    this.set = set
    this.id = id
    this.entry = entry
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== absent
  }

  get isMissing(): boolean {
    return this.holders > 0 && this.acknowledged !== markOf(this.entry)
  }

  get isSurplus(): boolean {
    return this.holders === 0 && this.isAcknowledged && !this.isLeftover
  }

  get isUnused(): boolean {
    return this.holders === 0 && !this.isAcknowledged
  }

  dropLeftover(): void {
    this.isLeftover = false
  }
}

export function markOf({ mark }: IpsetEntry): CarriedMark {
  return mark?.value ?? 0
}

/** Entries as a kind of kernel objects. The set of the entry records each failure. */
export const entryKind: ObjectKind<Member, CarriedMark, IpsetOp, IpsetOp[]> = {
  plan: (ops, { entry, set }, target) => {
    const op = target === absent ? 'delete-entry' : 'add-entry'
    ops.push({ op, set: set.presentSettings, entry })
    return 1
  },
  advance: (state, op) =>
    op.op === 'add-entry' ? markOf(op.entry) : op.op === 'delete-entry' ? absent : state,
  meaningOf: (member, _op, failure: OperationFailure): Meaning => {
    member.set.noteRefusal(member, failure)
    return 'refused'
  },
  isSame: (a, b) => a === b,
}
