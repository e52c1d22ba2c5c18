import type { IpFamily } from '../../../address.js'
import { ObjectTable } from '../../../engine/index.js'
import type { KernelError } from '../../../errors.js'
import type {
  IpsetEntry,
  IpsetHeader,
  IpsetSettings,
  IpsetType,
  OperationFailure,
} from '../../../kernel/index.js'
import { type SetKey, setName, setSpec } from '../compile/sets.js'
import { absent, Member } from './ipset-entry.js'
import { type EntryId, entryIdOf } from './ipset-id.js'

/** kube-proxy's, below which a set costs next to nothing. */
const leastElements = 65_536
const leastBuckets = 1024

/**
 * Codes that say that another program changed the kernel's set, or that there is none. EINVAL is the answer of nfnetlink in a kernel
 * without ip_set.
 */
const surprising: ReadonlySet<string> = new Set(['ENOENT', 'EINVAL', 'EEXIST', 'EPROTONOSUPPORT'])

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
  readonly members = new ObjectTable<EntryId, Member>()
  /** Members whose operation the kernel refused, or whose set does not exist; they are dirty again after `wake`. */
  readonly waiting = new Set<Member>()
  /**
   * The last dump, while it is what is acknowledged: an unchanged set is dumped in the same order, and comparing its
   * bytes is faster than comparing entries. 52 bytes each.
   */
  reading: Buffer | undefined
  trouble: SetTrouble | undefined
  /** Another program changed it: nothing is planned for it before it is read. */
  isStale = false
  /** It was read for that reason; a change found again is trouble. Until the end of a pass that finds it in order. */
  wasStale = false
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

  /** Its entries are of our type, perhaps without our marks. */
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
    return this.isOurs && !this.isStale
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

  /** Whether the header is the one that an unchanged set has. */
  isLike(header: IpsetHeader | undefined): boolean {
    const present = this.#present
    if (header === undefined || present === undefined) return header === present
    if (header.type !== present.type || header.family !== present.family) return false
    if (this.isOurs) return header.elements === this.members.acknowledgedCount
    // Of a foreign set only counts that its name may be free now.
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
    this.wasStale ||= this.isStale
    this.isStale = false
    this.wake()
  }

  /** It was made with our settings. */
  made(settings: IpsetSettings): void {
    this.#present = { ...settings, family: this.type === 'bitmap:port' ? undefined : settings.family }
    this.#presentSettings = undefined
    this.isStale = false
    this.wake()
  }

  /** What was refused may be tried again. */
  wake(): void {
    this.trouble = undefined
    for (const member of this.waiting) this.members.markDirty(member)
    this.waiting.clear()
  }

  idOf(entry: IpsetEntry): EntryId {
    return entryIdOf(this.type, this.#family, entry)
  }

  member(entry: IpsetEntry, id = this.idOf(entry)): Member {
    return this.members.get(id) ?? this.members.add(new Member(this, id, entry))
  }

  /** The kernel does not have the set: none of its entries either. */
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

  /** Takes in that an operation on the entry was answered. */
  noteAnswer(member: Member): void {
    this.reading = undefined
    this.settle(member)
  }

  /** Takes in that the entry changed; it is clean, or forgotten, when there is nothing to do for it. */
  settle(member: Member): void {
    if (!member.isMissing && !member.isSurplus) {
      this.members.markClean(member)
      this.waiting.delete(member)
    }
    this.members.settle(member)
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
   * A set that another program changed is read first; a failure that a reading does not help is the set's trouble. `entries`: how many
   * of them the kernel refused.
   */
  noteFailure({ error, unknown }: OperationFailure, entries: number): void {
    const isSurprise = (unknown || surprising.has(error.code)) && this.trouble === undefined
    if (isSurprise && (this.isStale || !this.wasStale)) this.isStale = true
    else this.#blame(error, entries)
  }

  #blame(error: KernelError, entries: number): void {
    const { trouble } = this
    this.trouble = { error: trouble?.error ?? error, entries: (trouble?.entries ?? 0) + entries }
  }
}

function powerOfTwo(atLeast: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, atLeast)))
}
