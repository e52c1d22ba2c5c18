// Which entries the sets of one family should have, who wants them, and what the kernel acknowledged.
import type { IpFamily } from '../address.js'
import { BugError } from '../errors.js'
import type {
  BatchOutcome,
  IpsetEntry,
  IpsetHeader,
  IpsetOp,
  IpsetSettings,
  OperationFailure,
  VirtualServerKey,
} from '../kernel/index.js'
import { type DesiredSetEntry, type SetKey, setKeys } from '../modes/ipvs/index.js'
import { type EntryId, entryIdOf, frontendIdOf, markOf, type Member, SetState } from './ipset-set.js'
import { DriftCounter, type Drift } from './drift.js'

/** Whoever wants entries: a virtual server of the ledger. */
export type SetHolder = object | string

interface Step {
  readonly op: IpsetOp
  /** What is acknowledged when the kernel took it. */
  readonly done: () => void
  /** What it was for, which waits for the next `adopt` when the kernel refused it. */
  readonly member?: Member
}

/** Operations for the kernel, and what each of them means. */
export interface IpsetBatch {
  readonly ops: readonly IpsetOp[]
  readonly steps: readonly Step[]
}

/** A set as a dump has it; without entries: it is of a type that is not ours. */
export interface DumpedSet {
  readonly header: IpsetHeader
  readonly entries: Iterable<IpsetEntry>
}

/** Some milliseconds of the kernel, after which others get their turn. */
const maxBatchOps = 4096

/** Their entries say what is not to be done: one of before must not stand in the way of a Service that is known. */
const forbiddingSets: ReadonlySet<SetKey> = new Set(['refused', 'dropped', 'droppedOutside'])

/** Work is proportional to what changed, but for `adopt` and a set that is made anew. */
export class IpsetTable {
  readonly #family: IpFamily
  readonly #sets: ReadonlyMap<SetKey, SetState>
  readonly #held = new Map<SetHolder, readonly Member[]>()
  #dirty = new Set<Member>()
  #isAdopted = false
  #keepsLeftovers = false

  constructor(family: IpFamily) {
    this.#family = family
    this.#sets = new Map(setKeys.map((key) => [key, new SetState(key, family)]))
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

  /** Everything that has to be there before an entry can be: sets that are missing, or too small, or other than ours. */
  planSets(): IpsetBatch {
    const steps: Step[] = []
    for (const set of this.#sets.values()) {
      const { need } = set
      if (need === 'create') steps.push(this.#creation(set))
      if (need === 'rebuild') steps.push(...this.#rebuild(set))
    }
    return batchOf(steps)
  }

  /** Entries that are wanted and missing; call it until there are none. */
  planAdds(): IpsetBatch {
    return this.#plan(
      (member) => member.isMissing,
      (member) => {
        const { entry, set } = member
        const acknowledged = { mark: markOf(entry) }
        return {
          member,
          op: { op: 'add-entry', set: set.presentSettings, entry },
          done: () => this.#acknowledge(member, acknowledged),
        }
      },
    )
  }

  /** Entries that nobody wants; call it until there are none. */
  planDeletes(): IpsetBatch {
    return this.#plan(
      (member) => member.isSurplus,
      (member) => ({
        member,
        op: { op: 'delete-entry', set: member.set.presentSettings, entry: member.entry },
        done: () => this.#acknowledge(member, undefined),
      }),
    )
  }

  /** Takes in what the kernel accepted; returns what it did not. */
  confirm(batch: IpsetBatch, outcome: BatchOutcome): readonly OperationFailure[] {
    const failed = new Set(outcome.failures.map(({ index }) => index))
    for (const [index, { done, member }] of batch.steps.entries()) {
      if (!failed.has(index)) done()
      else if (member !== undefined) this.#dirty.delete(member)
    }
    return outcome.failures
  }

  /**
   * Takes the kernel's word for every set and entry. With `keepLeftovers`, which counts at the first call, what nobody wants
   * stays until `dropLeftovers`.
   */
  adopt(
    dumped: ReadonlyMap<SetKey, DumpedSet>,
    { keepLeftovers }: { readonly keepLeftovers: boolean },
  ): Drift {
    const drift = new DriftCounter()
    if (!this.#isAdopted) this.#keepsLeftovers = keepLeftovers
    for (const [key, set] of this.#sets) this.#adoptSet(set, dumped.get(key), drift)
    this.#isAdopted = true
    return drift.counts
  }

  /** The whole world is known: what nobody wants of what was there at start is in nobody's use. Walks all, once. */
  dropLeftovers(): void {
    if (!this.#keepsLeftovers) return
    this.#keepsLeftovers = false
    for (const { members } of this.#sets.values()) {
      for (const member of members.values()) {
        member.isLeftover = false
        if (member.isSurplus) this.#dirty.add(member)
      }
    }
  }

  /** Whether the kernel has no entry in any of the sets. */
  get isEmpty(): boolean {
    return [...this.#sets.values()].every(({ acknowledgedCount }) => acknowledgedCount === 0)
  }

  /** Whether acknowledged entries say that a virtual server is ours, whatever its address carries. */
  marksOurs(server: VirtualServerKey): boolean {
    if ('mark' in server) return this.#has('marks', entryIdOf({ port: server.mark }))
    const { address, port, protocol } = server
    const id = frontendIdOf(address, protocol, port)
    const isFrontend = (['clusterIP', 'externalIP', 'externalIPLocal', 'loadBalancer'] as const).some((key) =>
      this.#has(key, id),
    )
    if (isFrontend) return true
    if (protocol === 'sctp') return this.#has('nodePortSctp', id)
    return this.#has(protocol === 'tcp' ? 'nodePortTcp' : 'nodePortUdp', entryIdOf({ port }))
  }

  /** The mark to which the kernel leads a frontend; undefined: to none. */
  markAt(server: VirtualServerKey): number | undefined {
    if ('mark' in server) return undefined
    const id = frontendIdOf(server.address, server.protocol, server.port)
    return this.#set('marked').members.get(id)?.acknowledged?.mark
  }

  /** The cheap check: whether the kernel's sets can be as they were left. */
  isLike(headers: readonly IpsetHeader[]): boolean {
    const byName = new Map(headers.map((header) => [header.name, header]))
    return [...this.#sets.values()].every((set) => set.isLike(byName.get(set.name)))
  }

  /** Whether the kernel has a virtual server of this mark from before, which nobody has claimed. */
  isMarkTaken(mark: number): boolean {
    const member = this.#set('marks').members.get(entryIdOf({ port: mark }))
    return member?.acknowledged !== undefined && member.holders === 0
  }

  /** Whether such a virtual server is there to which no frontend leads: who has it lost all of its frontends to others. */
  isMarkIdle(mark: number): boolean {
    if (!this.isMarkTaken(mark)) return false
    const leads = [...this.#set('marked').members.values()]
    return !leads.some(({ acknowledged }) => acknowledged?.mark === mark)
  }

  #has(key: SetKey, id: EntryId): boolean {
    return this.#set(key).members.get(id)?.acknowledged !== undefined
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
    if (member.isMissing) this.#dirty.add(member)
    return member
  }

  #release(member: Member): void {
    member.holders--
    if (member.holders === 0) this.#dirty.add(member)
  }

  #acknowledge(member: Member, acknowledged: Member['acknowledged']): void {
    member.acknowledged = acknowledged
    // What changed in the meantime stays dirty.
    if (!member.isMissing && !member.isSurplus) this.#dirty.delete(member)
    forgetUnused(member)
  }

  #plan(isDue: (member: Member) => boolean, stepOf: (member: Member) => Step): IpsetBatch {
    const steps: Step[] = []
    for (const member of this.#dirty) {
      if (steps.length >= maxBatchOps) break
      if (isDue(member)) steps.push(stepOf(member))
      else if (!member.isMissing && !member.isSurplus) {
        this.#dirty.delete(member)
        forgetUnused(member)
      }
    }
    return batchOf(steps)
  }

  #creation(set: SetState): Step {
    const { settings } = set
    return { op: { op: 'create-set', set: settings }, done: () => set.made(settings) }
  }

  /** A set beside it that has everything takes its place at once; one of another type has to go first. */
  #rebuild(set: SetState): readonly Step[] {
    const { name, settings } = set
    if (set.isOfOtherType) {
      const gone = (): void => {
        set.see(undefined)
        for (const member of set.members.values()) this.#lose(member)
      }
      return [{ op: { op: 'destroy-set', name }, done: gone }, this.#creation(set)]
    }
    const beside: IpsetSettings = { ...settings, name: standInName(this.#family) }
    const members = [...set.members.values()].filter(({ holders, isLeftover }) => holders > 0 || isLeftover)
    const swapped = (): void => {
      set.made(settings)
      for (const member of set.members.values()) this.#acknowledge(member, undefined)
      for (const member of members) this.#acknowledge(member, { mark: markOf(member.entry) })
    }
    return [
      { op: { op: 'create-set', set: beside }, done: nothingFollows },
      { op: { op: 'flush-set', name: beside.name }, done: nothingFollows },
      ...members.map(({ entry }) => ({
        op: { op: 'add-entry', set: beside, entry } as const,
        done: nothingFollows,
      })),
      { op: { op: 'swap-sets', name, other: beside.name }, done: swapped },
      { op: { op: 'destroy-set', name: beside.name }, done: nothingFollows },
    ]
  }

  #lose(member: Member): void {
    member.acknowledged = undefined
    if (member.isMissing) this.#dirty.add(member)
    forgetUnused(member)
  }

  #adoptSet(set: SetState, dumped: DumpedSet | undefined, drift: DriftCounter): void {
    const had = new Set<Member>()
    for (const member of set.members.values()) {
      if (member.acknowledged !== undefined) had.add(member)
      member.acknowledged = undefined
    }
    if (this.#isAdopted && dumped === undefined && set.need !== 'create') drift.add('set-missing')
    set.see(dumped?.header)
    for (const entry of dumped?.entries ?? []) this.#adoptEntry(set, entry, { had, drift })
    for (const member of set.members.values()) {
      if (had.has(member) && member.acknowledged === undefined && dumped !== undefined)
        drift.add('set-entry-missing')
      if (member.isMissing || member.isSurplus) this.#dirty.add(member)
      forgetUnused(member)
    }
  }

  #adoptEntry(
    set: SetState,
    entry: IpsetEntry,
    { had, drift }: { readonly had: ReadonlySet<Member>; readonly drift: DriftCounter },
  ): void {
    const member = set.member(entry)
    member.acknowledged = { mark: markOf(entry) }
    if (member.holders > 0 || had.has(member)) return
    member.entry = entry
    if (this.#isAdopted) drift.add('set-entry-unexpected')
    else member.isLeftover = this.#keepsLeftovers && !forbiddingSets.has(set.key)
  }
}

function nothingFollows(): void {}

/** Beside which set it stands changes; it is there for the time of one batch. */
export function standInName(family: IpFamily): string {
  return `viaduct-${family}-swap`
}

function forgetUnused(member: Member): void {
  if (member.isForgettable) member.set.members.delete(member.id)
}

function batchOf(steps: readonly Step[]): IpsetBatch {
  return { steps, ops: steps.map(({ op }) => op) }
}
