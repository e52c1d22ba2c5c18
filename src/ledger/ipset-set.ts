import type { IpAddress, IpFamily } from '../address.js'
import type { IpsetEntry, IpsetHeader, IpsetSettings, Protocol } from '../kernel/index.js'
import { type SetKey, setName, setSpec } from '../modes/ipvs/index.js'

/** Identity of an entry within its set: all but what it carries. */
export type EntryId = string & { readonly brand: 'EntryId' }

export function entryIdOf({ address, protocol, port, secondAddress, prefixLength }: IpsetEntry): EntryId {
  const second = secondAddress === undefined ? '' : ` ${secondAddress}/${prefixLength ?? ''}`
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return `${address ?? ''} ${protocol ?? ''} ${port ?? ''}${second}` as EntryId
}

/** The identity of what most sets hold. */
export function frontendIdOf(address: IpAddress, protocol: Protocol, port: number): EntryId {
  return entryIdOf({ address, protocol, port })
}

/** One entry: who wants it, and what the kernel acknowledged. */
export class Member {
  readonly set: SetState
  readonly id: EntryId
  /** As its holders want it, else as the kernel has it. */
  entry: IpsetEntry
  /** Virtual servers that want it: several may want one entry. */
  holders = 0
  #acknowledged: { readonly mark: number } | undefined
  /** There at start, and of nobody yet. */
  isLeftover = false

  constructor(set: SetState, id: EntryId, entry: IpsetEntry) {
    this.set = set
    this.id = id
    this.entry = entry
  }

  /** undefined: the kernel does not have it. */
  get acknowledged(): { readonly mark: number } | undefined {
    return this.#acknowledged
  }

  set acknowledged(value: { readonly mark: number } | undefined) {
    const change = (value === undefined ? 0 : 1) - (this.#acknowledged === undefined ? 0 : 1)
    this.set.acknowledgedCount += change
    this.#acknowledged = value
  }

  get isMissing(): boolean {
    return this.holders > 0 && this.acknowledged?.mark !== markOf(this.entry)
  }

  get isSurplus(): boolean {
    return this.holders === 0 && this.acknowledged !== undefined && !this.isLeftover
  }

  get isForgettable(): boolean {
    return this.holders === 0 && this.acknowledged === undefined
  }
}

export function markOf({ mark }: IpsetEntry): number {
  return mark?.value ?? 0
}

/** kube-proxy's, below which a set costs next to nothing. */
const leastElements = 65_536
const leastBuckets = 1024

/** What becomes of a set before entries can be added to it. */
export type SetNeed = 'nothing' | 'create' | 'rebuild'

/** One set of one family. */
export class SetState {
  readonly key: SetKey
  readonly name: string
  readonly members = new Map<EntryId, Member>()
  acknowledgedCount = 0
  readonly #family: IpFamily
  /** As the kernel has it; undefined: there is no such set. */
  #present: Pick<IpsetHeader, 'type' | 'family' | 'maxElements' | 'hasMarks' | 'hasComments'> | undefined

  constructor(key: SetKey, family: IpFamily) {
    this.key = key
    this.#family = family
    this.name = setName(key, family)
  }

  /** Who made it chose its size; what it is made with must be ours. */
  get need(): SetNeed {
    const present = this.#present
    if (present === undefined) return 'create'
    const { type, hasMarks } = this.settings
    if (present.type !== type || present.hasMarks !== hasMarks) return 'rebuild'
    if (type === 'bitmap:port') return 'nothing'
    const isRoomy = this.members.size <= present.maxElements
    return present.family === this.#family && isRoomy ? 'nothing' : 'rebuild'
  }

  /** Whether the kernel could say this of it, if nobody but us changed it. */
  isLike(header: IpsetHeader | undefined): boolean {
    if (header === undefined) return this.need === 'create'
    return (
      this.#present !== undefined &&
      header.type === this.#present.type &&
      header.elements === this.acknowledgedCount
    )
  }

  /** A rebuild cannot exchange it for the new one: it holds something else. */
  get isOfOtherType(): boolean {
    const present = this.#present
    if (present === undefined) return false
    const { type } = this.settings
    return present.type !== type || (type !== 'bitmap:port' && present.family !== this.#family)
  }

  /** With room for twice of what is wanted, so that a set which grows is not made anew at each step. */
  get settings(): IpsetSettings {
    const { type, hasMarks = false } = setSpec(this.key)
    const wanted = 2 * this.members.size
    const isBitmap = type === 'bitmap:port'
    return {
      name: this.name,
      type,
      family: isBitmap ? 'ipv4' : this.#family,
      maxElements: isBitmap ? leastElements : Math.max(leastElements, powerOfTwo(wanted)),
      hashSize: isBitmap ? leastBuckets : Math.max(leastBuckets, powerOfTwo(wanted)),
      hasMarks,
      hasComments: false,
    }
  }

  /** As entries of it are written: what counts is the type, not the size. */
  get presentSettings(): IpsetSettings {
    return { ...this.settings, hasComments: this.#present?.hasComments ?? false }
  }

  /** The kernel has it so, or not at all. */
  see(header: IpsetHeader | undefined): void {
    this.#present = header
  }

  /** It was made with our settings. */
  made(settings: IpsetSettings): void {
    this.#present = settings
  }

  member(entry: IpsetEntry, id = entryIdOf(entry)): Member {
    let member = this.members.get(id)
    if (member === undefined) {
      member = new Member(this, id, entry)
      this.members.set(id, member)
    }
    return member
  }
}

function powerOfTwo(atLeast: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(1, atLeast)))
}
