// Which entries the sets of one family should have, who wants them, and what the kernel acknowledged.
import { familyOf, type IpAddress, type IpFamily } from '../../../address.js'
import { BugError } from '../../../errors.js'
import {
  type BatchOutcome,
  type IpsetEntry,
  IpsetEntryCursor,
  ipsetEntryLayout,
  type IpsetHeader,
  type IpsetOp,
  type OperationFailure,
  type VirtualServerKey,
} from '../../../kernel/index.js'
import { type DesiredSetEntry, forbiddingSets, markAddress, type SetKey, setKeys } from '../compile/sets.js'
import type { UnfitSets } from '../compile/chains.js'
import type { Drift } from '../../../engine/index.js'
import { IpvsDriftCounter } from './drift.js'
import { SetExchange } from './ipset-exchange.js'
import {
  type CarriedMark,
  carriedMarkAt,
  type EntryId,
  entryIdAt,
  entryIdOf,
  frontendIdOf,
} from './ipset-id.js'
import { absent, markOf, type Member, SetState } from './ipset-set.js'
import type { SetStep } from './ipset-step.js'
import { bufferOver } from './packed.js'

/** Whoever wants entries: a virtual server of the ledger. */
export type SetHolder = object | string

/** Operations for the kernel, and what each of them means. */
export interface IpsetBatch {
  readonly ops: readonly IpsetOp[]
  readonly steps: readonly SetStep[]
}

/** A set as a dump has it; without entries: it is of a type that is not ours. */
export interface DumpedSet {
  readonly header: IpsetHeader
  /** Packed, as Ipset.entries() gives them. */
  readonly entries: Uint8Array
}

const noGaps: UnfitSets = { unusable: new Set(), incomplete: new Set() }

/** What says that the kernel's set is not as it was left, or none at all: EINVAL is nfnetlink's word for a kernel without ip_set. */
const surprising: ReadonlySet<string> = new Set(['ENOENT', 'EINVAL', 'EEXIST', 'EPROTONOSUPPORT'])

/** Some milliseconds of the kernel, after which others get their turn. */
const maxBatchOps = 4096

/** Work is proportional to what changed, but for `adopt` and a set that is made anew. */
export class IpsetTable {
  readonly #family: IpFamily
  readonly #markMask: number
  readonly #sets: ReadonlyMap<SetKey, SetState>
  readonly #inOrder: readonly SetState[]
  readonly #held = new Map<SetHolder, readonly Member[]>()
  #exchange: SetExchange | undefined
  /** How often the kernel was read. */
  #readings = 0
  #isAdopted = false
  #keepsLeftovers = false

  /** `markMask`: of the marks that entries lead to; those with another one are written anew. */
  constructor(family: IpFamily, markMask: number) {
    this.#family = family
    this.#markMask = markMask
    this.#inOrder = setKeys.map((key) => new SetState(key, family))
    this.#sets = new Map(this.#inOrder.map((set) => [set.key, set]))
  }

  /** Names of all sets. */
  get names(): ReadonlyMap<SetKey, string> {
    return new Map([...this.#sets].map(([key, { name }]) => [key, name]))
  }

  /** False: the kernel was not read yet, and nothing may be planned. */
  get isAdopted(): boolean {
    return this.#isAdopted
  }

  /** Replaces all that the holder wants; an empty list releases it. */
  want(holder: SetHolder, desired: readonly DesiredSetEntry[]): void {
    const former = this.#held.get(holder)
    if (former === undefined && desired.length === 0) return
    const members = desired.map(({ set, entry }) => this.#hold(set, entry))
    for (const member of former ?? []) this.#release(member)
    if (members.length === 0) this.#held.delete(holder)
    else this.#held.set(holder, members)
  }

  /**
   * What has to be there before an entry can be: sets that are missing, or too small, or other than ours. Call it until there is
   * nothing; a set that the kernel refuses is left out until `retry` or the next `adopt`.
   */
  planSets(): IpsetBatch {
    const steps: SetStep[] = []
    for (const set of this.#inOrder) {
      if (set.trouble !== undefined || set.isDoubtful) continue
      if (set.need === 'replace') steps.push(removal(set))
      if (set.need === 'create' || set.need === 'replace') steps.push(creation(set))
    }
    if (steps.length > 0) return batchOf(steps)
    this.#exchange ??= this.#nextExchange()
    return batchOf(this.#exchange?.plan(maxBatchOps) ?? [])
  }

  /** Entries that are wanted and missing; call it until there are none. */
  planAdds(): IpsetBatch {
    return this.#plan(
      this.#inOrder,
      (member) => member.isMissing,
      (member) => {
        const { entry, set } = member
        return {
          set,
          member,
          op: { op: 'add-entry', set: set.presentSettings, entry },
          done: () => acknowledge(member, markOf(entry)),
        }
      },
    )
  }

  /** Deletes of entries that are not desired, in all sets or in these; call it until it returns none. */
  planDeletes(keys?: ReadonlySet<SetKey>): IpsetBatch {
    return this.#plan(
      this.#inOrder.filter(({ key }) => keys?.has(key) ?? true).toReversed(),
      (member) => member.isSurplus,
      (member) => ({
        set: member.set,
        member,
        op: { op: 'delete-entry', set: member.set.presentSettings, entry: member.entry },
        done: () => acknowledge(member, absent),
      }),
    )
  }

  /** Takes in what the kernel accepted; what it refused is the trouble of its set, which `troubles` names. */
  confirm(batch: IpsetBatch, outcome: BatchOutcome): void {
    const failures = new Map(outcome.failures.map((failure) => [failure.index, failure]))
    let isRefused = false
    for (const [index, step] of batch.steps.entries()) {
      const failure = failures.get(index)
      if (failure === undefined) step.done()
      else if (step.mayBeAbsent !== true || failure.error.code !== 'ENOENT') {
        isRefused = true
        noteFailure(step, failure)
      }
    }
    const exchange = this.#exchange
    if (exchange?.set !== batch.steps[0]?.set || batch.steps[0]?.member !== undefined) return
    exchange?.confirm({ isRefused })
    if (exchange?.isDone === true) this.#exchange = undefined
  }

  /** Sets that are not as they were left: read them. */
  get isDoubtful(): boolean {
    return this.#inOrder.some((set) => set.isDoubtful)
  }

  /** Sets that do not hold what is wanted, as the kernel refuses it. */
  get troubles(): readonly SetState[] {
    return this.#inOrder.filter(({ trouble }) => trouble !== undefined)
  }

  /** What was refused of this set may be planned again. */
  retry(set: SetState): void {
    set.wake()
    if (this.#exchange?.set === set) this.#exchange.giveUp()
  }

  /** Ends a pass: a set without trouble that is not as it was left is a surprise again. */
  endPass(): void {
    for (const set of this.#inOrder) if (set.trouble === undefined && !set.isDoubtful) set.wasDoubtful = false
  }

  /** The same object while there are none. */
  get gaps(): UnfitSets {
    const { troubles } = this
    if (troubles.length === 0) return noGaps
    const unusable = troubles.filter(({ isOurs }) => !isOurs)
    const incomplete = troubles.filter(({ isOurs, waiting }) => !isOurs || waiting.size > 0)
    return {
      unusable: new Set(unusable.map(({ key }) => key)),
      incomplete: new Set(incomplete.map(({ key }) => key)),
    }
  }

  /**
   * Takes the kernel's word for every set and entry. With `keepLeftovers`, which counts at the first call, what nobody wants
   * stays until `dropLeftovers`.
   */
  adopt(
    dumped: ReadonlyMap<SetKey, DumpedSet>,
    { keepLeftovers }: { readonly keepLeftovers: boolean },
  ): Drift {
    const drift = new IpvsDriftCounter()
    this.#readings++
    this.#exchange?.giveUp()
    if (!this.#isAdopted) this.#keepsLeftovers = keepLeftovers
    for (const [key, set] of this.#sets) this.#adoptSet(set, dumped.get(key), drift)
    this.#isAdopted = true
    return drift.counts
  }

  /** The whole world is known: what nobody wants of what was there at start is in nobody's use. Walks all, once. */
  dropLeftovers(): void {
    if (!this.#keepsLeftovers) return
    this.#keepsLeftovers = false
    for (const { members } of this.#inOrder) {
      for (const member of members.values()) {
        member.isLeftover = false
        if (member.isSurplus) member.set.dirty.add(member)
      }
    }
  }

  /** Whether the kernel has no entry in any of the sets. */
  get isEmpty(): boolean {
    return this.#inOrder.every(({ acknowledgedCount }) => acknowledgedCount === 0)
  }

  /** Whether an acknowledged entry says that the address is a VIP. */
  marksVip(address: IpAddress): boolean {
    return this.#has('vips', addressIdOf(address))
  }

  /**
   * Whether acknowledged entries say that a virtual server is ours, whatever its address carries. Most node ports have no address
   * in their set: they are ours at addresses of the node only, those that it has, or had when it served them.
   */
  marksOurs(server: VirtualServerKey, isOfNode: (address: IpAddress) => boolean): boolean {
    if ('mark' in server) return this.#has('marks', this.#markId(server.mark))
    const { address, port, protocol } = server
    const id = frontendIdOf(address, protocol, port)
    const isFrontend = (['clusterIP', 'externalIP', 'externalIPLocal', 'loadBalancer'] as const).some((key) =>
      this.#has(key, id),
    )
    if (isFrontend) return true
    if (protocol === 'sctp') return this.#has('nodePortSctp', id)
    if (!isOfNode(address) && !this.#has('nodePortIPs', addressIdOf(address))) return false
    return this.#has(protocol === 'tcp' ? 'nodePortTcp' : 'nodePortUdp', portIdOf(port))
  }

  /** Whether acknowledged entries say that packets from outside to this frontend keep their source. */
  keepsSource(server: VirtualServerKey): boolean {
    if ('mark' in server) return false
    const { address, port, protocol } = server
    const id = frontendIdOf(address, protocol, port)
    if (this.#has('externalIPLocal', id) || this.#has('loadBalancerLocal', id)) return true
    if (protocol === 'sctp') return this.#has('nodePortLocalSctp', id)
    return this.#has(protocol === 'tcp' ? 'nodePortLocalTcp' : 'nodePortLocalUdp', portIdOf(port))
  }

  /** The mark to which the kernel leads a frontend; undefined: to none. */
  markAt(server: VirtualServerKey): number | undefined {
    if ('mark' in server) return undefined
    const id = frontendIdOf(server.address, server.protocol, server.port)
    const mark = this.#set('marked').members.get(id)?.acknowledged ?? absent
    return mark > 0 ? mark : undefined
  }

  /** Whether the kernel's sets, all of them, can be as they were left. */
  isLike(headers: readonly IpsetHeader[]): boolean {
    const byName = new Map(headers.map((header) => [header.name, header]))
    return this.#inOrder.every((set) => set.isLike(byName.get(set.name)))
  }

  /** Whether the kernel has a virtual server of this mark from before, which nobody has claimed. */
  isMarkTaken(mark: number): boolean {
    const member = this.#set('marks').members.get(this.#markId(mark))
    return member !== undefined && member.isThere && member.holders === 0
  }

  /** Whether such a virtual server is there to which no frontend leads: who has it lost all of its frontends to others. */
  isMarkIdle(mark: number): boolean {
    return this.isMarkTaken(mark) && !this.leads().has(mark)
  }

  /** The marks that frontends lead to, as acknowledged. Walks all frontends with marks. */
  leads(): ReadonlySet<number> {
    return new Set([...this.#set('marked').members.values()].map(({ acknowledged }) => acknowledged))
  }

  #markId(mark: number): EntryId {
    return addressIdOf(markAddress(mark, this.#family))
  }

  #has(key: SetKey, id: EntryId): boolean {
    return this.#set(key).members.get(id)?.isThere === true
  }

  #set(key: SetKey): SetState {
    const set = this.#sets.get(key)
    if (set === undefined) throw new BugError(`there is no set ${key}`)
    return set
  }

  #hold(key: SetKey, entry: IpsetEntry): Member {
    const member = this.#set(key).member(entry)
    member.entry = entry
    member.isLeftover = false
    member.holders++
    if (member.isMissing && !member.set.waiting.has(member)) member.set.dirty.add(member)
    return member
  }

  #release(member: Member): void {
    member.holders--
    if (member.holders === 0) member.set.dirty.add(member)
  }

  /** In the order of sets: neighbours cross the kernel's door together. */
  #plan(
    sets: readonly SetState[],
    isDue: (member: Member) => boolean,
    stepOf: (member: Member) => SetStep,
  ): IpsetBatch {
    const steps: SetStep[] = []
    for (const set of sets) {
      for (const member of set.dirty) {
        if (steps.length >= maxBatchOps) return batchOf(steps)
        if (!member.isMissing && !member.isSurplus) {
          set.dirty.delete(member)
          set.forgetUnused(member)
        } else if (!set.isWritable) {
          set.dirty.delete(member)
          set.waiting.add(member)
        } else if (isDue(member)) steps.push(stepOf(member))
      }
    }
    return batchOf(steps)
  }

  #nextExchange(): SetExchange | undefined {
    for (const set of this.#inOrder) {
      const isFree = set.trouble === undefined && !set.isDoubtful
      if (isFree && set.need === 'exchange') return new SetExchange(set, this.#family)
    }
    return undefined
  }

  #adoptSet(set: SetState, dumped: DumpedSet | undefined, drift: IpvsDriftCounter): void {
    const before = set.acknowledgedCount
    if (this.#isAdopted && dumped === undefined && set.need !== 'create') drift.add('set-missing')
    set.see(dumped?.header)
    const bytes = dumped !== undefined && set.isOfOurType ? bufferOver(dumped.entries) : Buffer.alloc(0)
    if (set.reading?.equals(bytes) === true) return
    const kept = this.#adoptEntries(set, bytes, drift)
    if (kept !== before) this.#loseOthers(set, dumped === undefined ? undefined : drift)
    set.reading = bytes
  }

  /** What this reading did not find. */
  #loseOthers(set: SetState, drift: IpvsDriftCounter | undefined): void {
    for (const member of set.members.values()) {
      if (member.seenIn === this.#readings || !member.isThere) continue
      drift?.add('set-entry-missing')
      member.acknowledged = absent
      if (member.isMissing) set.dirty.add(member)
      set.forgetUnused(member)
    }
  }

  /** Compares bytes, and makes objects only for what is new. Returns how many of those that were acknowledged are still there. */
  #adoptEntries(set: SetState, bytes: Buffer, drift: IpvsDriftCounter): number {
    const { type, members } = set
    let kept = 0
    for (let at = 0; at < bytes.length; at += ipsetEntryLayout.size) {
      const id = entryIdAt(type, this.#family, bytes, at)
      const mark = carriedMarkAt(bytes, at, this.#markMask)
      const member = members.get(id)
      if (member?.isThere === true && member.seenIn !== this.#readings) kept++
      if (member?.acknowledged === mark) member.seenIn = this.#readings
      else this.#adoptEntry(member ?? newMember(set, id, bytes.subarray(at)), mark, drift)
    }
    return kept
  }

  #adoptEntry(member: Member, mark: CarriedMark, drift: IpvsDriftCounter): void {
    const wasThere = member.isThere
    member.seenIn = this.#readings
    member.acknowledged = mark
    if (this.#isAdopted && wasThere) drift.add('set-entry-changed')
    else if (this.#isAdopted && member.holders === 0) drift.add('set-entry-unexpected')
    if (!this.#isAdopted && member.holders === 0)
      // One of before must not stand in the way of a Service that is known.
      member.isLeftover = this.#keepsLeftovers && !forbiddingSets.has(member.set.key)
    if (member.isMissing || member.isSurplus) member.set.dirty.add(member)
  }
}

function acknowledge(member: Member, mark: CarriedMark): void {
  member.acknowledged = mark
  member.set.waiting.delete(member)
  // What changed in the meantime stays dirty.
  if (!member.isMissing && !member.isSurplus) member.set.dirty.delete(member)
  member.set.forgetUnused(member)
}

/** At first a set that is not as it was left is read; what a reading does not help is the set's trouble. */
function noteFailure({ set, member }: SetStep, { error, unknown }: OperationFailure): void {
  if (member !== undefined) {
    set.dirty.delete(member)
    set.waiting.add(member)
  }
  const isSurprise = (unknown || surprising.has(error.code)) && set.trouble === undefined
  if (isSurprise && (set.isDoubtful || !set.wasDoubtful)) set.isDoubtful = true
  else set.blame(error, member === undefined ? 0 : 1)
}

function creation(set: SetState): SetStep {
  const { settings } = set
  return { set, op: { op: 'create-set', set: settings }, done: () => set.made(settings) }
}

/** Of another's set: it cannot be exchanged for one that holds something else. */
function removal(set: SetState): SetStep {
  const gone = (): void => {
    set.see(undefined)
    for (const member of set.members.values()) {
      member.acknowledged = absent
      if (member.isMissing) set.dirty.add(member)
      set.forgetUnused(member)
    }
  }
  return { set, op: { op: 'destroy-set', name: set.name }, done: gone, mayBeAbsent: true }
}

function newMember(set: SetState, id: EntryId, record: Buffer): Member {
  const cursor = new IpsetEntryCursor(record.subarray(0, ipsetEntryLayout.size), set.type)
  return set.member(cursor.entry(0), id)
}

/** Of the sets of addresses. */
function addressIdOf(address: IpAddress): EntryId {
  return entryIdOf('hash:ip', familyOf(address), { address })
}

function portIdOf(port: number): EntryId {
  return entryIdOf('bitmap:port', 'ipv4', { port })
}

function batchOf(steps: readonly SetStep[]): IpsetBatch {
  return { steps, ops: steps.map(({ op }) => op) }
}
