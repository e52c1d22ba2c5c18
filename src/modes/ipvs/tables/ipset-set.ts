import type { IpFamily } from '../../../address.js'
import type { KernelError } from '../../../errors.js'
import type { IpsetEntry, IpsetHeader, IpsetSettings, IpsetType } from '../../../kernel/index.js'
import { type SetKey, setName, setSpec } from '../compile/sets.js'
import { type CarriedMark, type EntryId, entryIdOf } from './ipset-id.js'

/** What the kernel has of an entry that it does not have. */
export const absent: CarriedMark = -1

/** One entry: who wants it, and what the kernel acknowledged. */
export class Member {
  readonly set: SetState
  readonly id: EntryId
  /** As its holders want it, else as the kernel has it. */
  entry: IpsetEntry
  /** Virtual servers that want it: several may want one entry. */
  holders = 0
  #acknowledged: CarriedMark = absent
  /** There at start, and of nobody yet. */
  isLeftover = false
  /** The last reading in which it was found. */
  seenIn = 0

  constructor(set: SetState, id: EntryId, entry: IpsetEntry) {
    this.set = set
    this.id = id
    this.entry = entry
  }

  /** What the kernel has it with; `absent`: the kernel does not have it. */
  get acknowledged(): CarriedMark {
    return this.#acknowledged
  }

  set acknowledged(value: CarriedMark) {
    if (value === this.#acknowledged) return
    this.set.reading = undefined
    this.set.acknowledgedCount += (value === absent ? 0 : 1) - (this.#acknowledged === absent ? 0 : 1)
    this.#acknowledged = value
  }

  get isThere(): boolean {
    return this.#acknowledged !== absent
  }

  get isMissing(): boolean {
    return this.holders > 0 && this.#acknowledged !== markOf(this.entry)
  }

  get isSurplus(): boolean {
    return this.holders === 0 && this.isThere && !this.isLeftover
  }

  get isForgettable(): boolean {
    return this.holders === 0 && !this.isThere
  }
}

export function markOf({ mark }: IpsetEntry): CarriedMark {
  return mark?.value ?? 0
}

/** kube-proxy's, below which a set costs next to nothing. */
const leastElements = 65_536
const leastBuckets = 1024

/** What becomes of a set before entries can be added to it. */
export type SetNeed = 'nothing' | 'create' | 'replace' | 'exchange'

/** Why the kernel does not hold what is wanted of a set. */
export interface SetTrouble {
  /** The first of them: others are mostly like it. */
  readonly error: KernelError
  /** Entries that it refused; 0: the set itself could not be made. */
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
  readonly members = new Map<EntryId, Member>()
  acknowledgedCount = 0
  /** Members that may need work. */
  readonly dirty = new Set<Member>()
  /** Members whose work the kernel refused, or which have no set to be in; they are dirty again after `wake`. */
  readonly waiting = new Set<Member>()
  /**
   * The last dump, while it is what is acknowledged: a set that nobody changed is dumped in the same order, and its bytes tell
   * that faster than its entries. 52 bytes each.
   */
  reading: Buffer | undefined
  trouble: SetTrouble | undefined
  /** It was not as it was left: nothing is to be done with it before it was read. */
  isDoubtful = false
  /** It was read because of that; not as it was left again is trouble. Until it is well. */
  wasDoubtful = false
  readonly #family: IpFamily
  readonly #hasMarks: boolean
  /** As the kernel has it; undefined: there is no such set. */
  #present: Present | undefined
  #presentSettings: IpsetSettings | undefined

  constructor(key: SetKey, family: IpFamily) {
    const { type, hasMarks = false } = setSpec(key)
    this.key = key
    this.type = type
    this.name = setName(key, family)
    this.#family = family
    this.#hasMarks = hasMarks
  }

  /** Who made it chose its size; what it is made with must be ours. */
  get need(): SetNeed {
    const present = this.#present
    if (present === undefined) return 'create'
    if (!this.isOfOurType) return 'replace'
    const isRoomy = this.type === 'bitmap:port' || this.members.size <= present.maxElements
    return isRoomy && this.isOurs ? 'nothing' : 'exchange'
  }

  /** What it holds is like what we would put into it, but for marks. */
  get isOfOurType(): boolean {
    const present = this.#present
    if (present?.type !== this.type) return false
    return this.type === 'bitmap:port' || present.family === this.#family
  }

  /** The kernel has it, and it holds what we would put into it. */
  get isOurs(): boolean {
    return this.isOfOurType && this.#present?.hasMarks === this.#hasMarks
  }

  /** Entries of it may be written. To another's set, the kernel would take of them what its type needs. */
  get isWritable(): boolean {
    return this.isOurs && !this.isDoubtful
  }

  /** Another's set of this name, as the kernel names its type. */
  get foreignType(): string | undefined {
    const present = this.#present
    if (present === undefined || this.isOurs) return undefined
    const family =
      present.family === undefined || present.family === this.#family ? '' : ` of ${present.family}`
    return `${present.type}${present.hasMarks ? ' with marks' : ''}${family}`
  }

  /** How many entries the kernel's takes. */
  get capacity(): number {
    return this.#present?.maxElements ?? 0
  }

  /** Whether the kernel could say this of it, if nobody but us changed it. */
  isLike(header: IpsetHeader | undefined): boolean {
    const present = this.#present
    if (header === undefined || present === undefined) return header === present
    if (header.type !== present.type || header.family !== present.family) return false
    if (this.isOurs) return header.elements === this.acknowledgedCount
    // What is in another's set is nobody's business, but that it can be had now.
    return header.references > 0 || present.references === 0
  }

  /** With room for twice of what is wanted, so that a set which grows is not made anew at each step. */
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
   * As entries of it are written: what counts is the type, not the size. NB: the same object for each, as entries of one set go
   * into one message.
   */
  get presentSettings(): IpsetSettings {
    this.#presentSettings ??= { ...this.settings, hasComments: this.#present?.hasComments ?? false }
    return this.#presentSettings
  }

  /** The kernel has it so, or not at all. */
  see(header: IpsetHeader | undefined): void {
    this.#present = header
    this.#presentSettings = undefined
    this.wasDoubtful ||= this.isDoubtful
    this.isDoubtful = false
    this.wake()
  }

  /** It was made with our settings. */
  made(settings: IpsetSettings): void {
    this.#present = { ...settings, family: this.type === 'bitmap:port' ? undefined : settings.family }
    this.#presentSettings = undefined
    this.isDoubtful = false
    this.wake()
  }

  /** What was refused may be tried again. */
  wake(): void {
    this.trouble = undefined
    for (const member of this.waiting) this.dirty.add(member)
    this.waiting.clear()
  }

  /** `entries`: how many of them the kernel refused. */
  blame(error: KernelError, entries: number): void {
    const { trouble } = this
    this.trouble = { error: trouble?.error ?? error, entries: (trouble?.entries ?? 0) + entries }
  }

  idOf(entry: IpsetEntry): EntryId {
    return entryIdOf(this.type, this.#family, entry)
  }

  member(entry: IpsetEntry, id = this.idOf(entry)): Member {
    let member = this.members.get(id)
    if (member === undefined) {
      member = new Member(this, id, entry)
      this.members.set(id, member)
    }
    return member
  }

  /** Nobody wants it, and the kernel does not have it. */
  forgetUnused(member: Member): void {
    if (!member.isForgettable) return
    this.members.delete(member.id)
    this.dirty.delete(member)
    this.waiting.delete(member)
  }
}

function powerOfTwo(atLeast: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, atLeast)))
}
