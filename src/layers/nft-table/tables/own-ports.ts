// The own chains of service ports, desired and acknowledged, with the slots of their endpoints.
import { hash } from 'node:crypto'
import type { Clock } from '../../../clock.js'
import type { IpFamily } from '../../../address.js'
import type { NfChainState, NfOp, NfRuleState, NfSetState } from '../../../kernel/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import { KernelObject, ObjectTable } from '../../objects/index.js'
import type { DesiredOwnChains } from '../compile/desired.js'
import {
  type OwnChainContent,
  ownChainId,
  type OwnChainList,
  ownChainName,
  ownComment,
  ownLists,
  ownRuleCount,
  ownRules,
  parseOwnChainName,
  readOwnRules,
  type SlottedEndpoint,
} from '../compile/own-chains.js'
import { clientSet, type NftSchema } from '../compile/schema.js'
import { splitPacked } from './frontend-state.js'
import type { PackedBytes, Packer } from './packed.js'
import { rulesByChain } from './structure-state.js'

/** A chain of the kernel: its content, or other rules than those of any content. */
type KnownChain = OwnChainContent | 'absent' | 'other'

/** The own chains of one service port as the kernel has them. */
export interface OwnState extends Readonly<Record<OwnChainList, KnownChain>> {
  readonly hasClients: boolean
}

const nothing: OwnState = { hasClients: false, cluster: 'absent', local: 'absent' }

/** The chains as a service port wants them. */
interface WantedOwnChains extends Readonly<Record<OwnChainList, readonly PackedBytes[]>> {
  readonly holder: ServicePortKey
  readonly desired: Pick<DesiredOwnChains, 'name' | 'protocol' | 'affinitySeconds'>
}

/** The own chains of one service port. */
export class OwnPortEntry extends KernelObject<string, OwnState> {
  readonly kind = 'own-port'
  wanted: WantedOwnChains | undefined
  /** Slots of the endpoints that the chains have, or will have. */
  readonly slots = new Map<PackedBytes, number>()
  /** Number of slots that were assigned. */
  assigned = 0

  constructor(id: string) {
    super(id, nothing)
  }

  get isAcknowledged(): boolean {
    const { hasClients, cluster, local } = this.acknowledged
    return hasClients || cluster !== 'absent' || local !== 'absent'
  }

  get isUnused(): boolean {
    return this.wanted === undefined && !this.isAcknowledged
  }

  /** The chains of the kernel to which no frontend leads. */
  get unneededChains(): readonly OwnChainList[] {
    return ownLists.filter(
      (list) => this.acknowledged[list] !== 'absent' && (this.wanted?.[list].length ?? 0) === 0,
    )
  }

  get hasUnneeded(): boolean {
    return this.unneededChains.length > 0 || (this.wanted === undefined && this.acknowledged.hasClients)
  }
}

export interface OwnPortsOptions {
  readonly family: IpFamily
  readonly schema: NftSchema
  readonly packer: Packer
  readonly clock: Pick<Clock, 'unixMs'>
}

/** All own chains of one family's table. */
export class OwnPorts {
  readonly entries = new ObjectTable<string, OwnPortEntry>()
  readonly #options: OwnPortsOptions
  readonly #entryOf = new Map<ServicePortKey, OwnPortEntry>()
  /** Entries that may have unneeded chains since the last `noteWritten`. */
  readonly #touched = new Set<OwnPortEntry>()
  /** Entries that had unneeded chains at the last `noteWritten`. */
  readonly #unneeded = new Set<OwnPortEntry>()

  constructor(options: OwnPortsOptions) {
    this.#options = options
  }

  /** The chains of a service port; undefined: it has none. */
  entryOf(route: ServicePortKey): OwnPortEntry | undefined {
    return this.#entryOf.get(route)
  }

  /** The same by the text of its key. */
  entryNamed(route: string): OwnPortEntry | undefined {
    const entry = this.entries.get(ownChainId(route))
    return entry?.wanted?.holder === route ? entry : undefined
  }

  /** Replaces the claim of the service port; undefined releases it. */
  claim(holder: ServicePortKey, desired: DesiredOwnChains | undefined): void {
    const former = this.#entryOf.get(holder)
    if (desired === undefined) {
      if (former === undefined) return
      this.#entryOf.delete(holder)
      if (former.wanted?.holder !== holder) return
      former.wanted = undefined
      this.#touch(former)
      return
    }
    const entry = this.#findOrAdd(desired.id)
    const { packer } = this.#options
    const pack = (list: OwnChainList): readonly PackedBytes[] =>
      splitPacked(packer.endpoints(desired[list]), packer.endpointBytes)
    const { name, protocol, affinitySeconds } = desired
    entry.wanted = {
      holder,
      desired: { name, protocol, affinitySeconds },
      cluster: pack('cluster'),
      local: pack('local'),
    }
    this.#entryOf.set(holder, entry)
    this.#touch(entry)
  }

  /**
   * The state to write, with new slots for new endpoints: the set still has the clients of former endpoints. Endpoints that a chain has
   * keep their order, and new ones follow. Chains that are not needed stay as they are.
   */
  targetOf(entry: OwnPortEntry): OwnState {
    const { wanted, acknowledged } = entry
    if (wanted === undefined) return acknowledged
    const { desired, cluster, local } = wanted
    this.#assignSlots(entry, new Set([...cluster, ...local]))
    const contentOf = (list: OwnChainList): KnownChain =>
      wanted[list].length === 0
        ? acknowledged[list]
        : {
            protocol: desired.protocol,
            affinitySeconds: desired.affinitySeconds,
            endpoints: inKnownOrder(wanted[list], acknowledged[list]).map((endpoint) => ({
              endpoint,
              slot: slotOf(entry, endpoint),
            })),
          }
    return { hasClients: true, cluster: contentOf('cluster'), local: contentOf('local') }
  }

  /** The operations from the acknowledged state to the target. */
  ops(entry: OwnPortEntry, target: OwnState): readonly NfOp[] {
    const { family, schema } = this.#options
    const { id, wanted, acknowledged } = entry
    if (wanted === undefined) return []
    const name = wanted.desired.name
    const ops: NfOp[] = []
    if (!acknowledged.hasClients)
      ops.push({ op: 'add-set', set: schema.clients(id, ownComment(`clients of ${name}`)) })
    for (const list of ownLists) {
      const content = target[list]
      const known = acknowledged[list]
      if (typeof content === 'string' || isSameChain(known, content)) continue
      const chain = { ...schema.table, chain: ownChainName(id, list) }
      ops.push({ op: known === 'absent' ? 'add-chain' : 'flush-chain', chain })
      for (const rule of ownRules({ family, id, list, comment: ownComment(name) }, content))
        ops.push({ op: 'add-rule', rule })
    }
    return ops
  }

  /** The kernel took the operations of the target. */
  confirm(entry: OwnPortEntry, target: OwnState): void {
    if (entry.wanted !== undefined) entry.acknowledged = target
    this.#settle(entry)
  }

  /**
   * Everything is written: no element leads to the chains that were released before. True: the unneeded ones may be others than at the
   * last call.
   */
  noteWritten(): boolean {
    let isNew = false
    for (const entry of this.#touched) {
      if (entry.hasUnneeded) {
        this.#unneeded.add(entry)
        isNew = true
      } else if (this.#unneeded.delete(entry)) isNew = true
    }
    this.#touched.clear()
    return isNew
  }

  /** The names of chains of the kernel to which no element leads, since the last `noteWritten`. */
  get unneededChains(): readonly string[] {
    return [...this.#unneeded].flatMap((entry) =>
      entry.unneededChains.map((list) => ownChainName(entry.id, list)),
    )
  }

  /** The names of sets of clients that no chain needs. */
  get unneededSets(): readonly string[] {
    return [...this.#unneeded]
      .filter(({ wanted, acknowledged }) => wanted === undefined && acknowledged.hasClients)
      .map(({ id }) => this.#options.schema.clients(id).set)
  }

  /** The kernel took an operation that removes an unneeded object. False: it is none of these. */
  confirmRemoved(op: NfOp): boolean {
    if (op.op === 'delete-set' && clientSet(this.#options.schema, op.set.set) !== undefined)
      this.#setClients(op.set.set, false)
    else if (
      (op.op === 'delete-chain' || op.op === 'flush-chain') &&
      parseOwnChainName(op.chain.chain) !== undefined
    )
      this.#setChain(op.chain.chain, op.op === 'delete-chain' ? 'absent' : 'other')
    else return false
    for (const entry of this.#unneeded) if (!entry.hasUnneeded) this.#unneeded.delete(entry)
    return true
  }

  /** Takes in the names that the kernel has. Returns what disappeared. */
  readObjects(
    sets: readonly Pick<NfSetState, 'set'>[],
    chains: readonly Pick<NfChainState, 'chain'>[],
  ): { readonly missingSets: readonly string[]; readonly missingChains: readonly string[] } {
    const found = new Set([...sets.map(({ set }) => set), ...chains.map(({ chain }) => chain)])
    const missingSets: string[] = []
    const missingChains: string[] = []
    for (const entry of this.entries.values()) {
      const clients = this.#options.schema.clients(entry.id).set
      if (entry.acknowledged.hasClients && !found.has(clients)) missingSets.push(clients)
      for (const list of ownLists) {
        const name = ownChainName(entry.id, list)
        if (entry.acknowledged[list] !== 'absent' && !found.has(name)) missingChains.push(name)
      }
    }
    for (const name of missingSets) this.#setClients(name, false)
    for (const name of missingChains) this.#setChain(name, 'absent')
    for (const { set } of sets) this.#setClients(set, true)
    for (const { chain } of chains) if (this.#chainOf(chain) === 'absent') this.#setChain(chain, 'other')
    return { missingSets, missingChains }
  }

  /** Whether the kernel has the own chain of this name. */
  hasChain(name: string): boolean {
    return (this.#chainOf(name) ?? 'absent') !== 'absent'
  }

  /** The wanted chains that the kernel lacks, or has with other rules than it had after the last write, by what was read. */
  compare(
    chains: readonly NfChainState[],
    rules: readonly NfRuleState[],
  ): { readonly missingChains: readonly string[]; readonly changedChains: readonly string[] } {
    const names = new Set(chains.map(({ chain }) => chain))
    const rulesOf = rulesByChain(rules)
    const wanted = [...this.entries.values()].flatMap((entry) =>
      ownLists
        .filter((list) => (entry.wanted?.[list].length ?? 0) > 0)
        .map((list) => ({ entry, list, name: ownChainName(entry.id, list) })),
    )
    const isChanged = ({ entry, list, name }: (typeof wanted)[number]): boolean => {
      const known = entry.acknowledged[list]
      const place = { family: this.#options.family, id: entry.id, list, comment: undefined }
      const read = readOwnRules(place, rulesOf.get(name) ?? [])
      return read?.isWhole !== true || (known !== 'absent' && !isSameChain(known, read.content))
    }
    return {
      missingChains: wanted.filter(({ name }) => !names.has(name)).map(({ name }) => name),
      changedChains: wanted.filter((each) => names.has(each.name) && isChanged(each)).map(({ name }) => name),
    }
  }

  /** The names of the chains that the kernel has. */
  *chains(): Generator<string> {
    for (const { id, acknowledged } of this.entries.values())
      for (const list of ownLists) if (acknowledged[list] !== 'absent') yield ownChainName(id, list)
  }

  /**
   * Takes in the rules of a chain, with their slots. `isChanged`: they are neither the acknowledged nor the desired ones. `isForeign`:
   * another program wrote some of them.
   */
  readRules(
    name: string,
    found: readonly NfRuleState[],
  ): { readonly isChanged: boolean; readonly isForeign: boolean } {
    const place = parseOwnChainName(name)
    const entry = place && this.entries.get(place.id)
    const known = place && entry?.acknowledged[place.list]
    if (place === undefined || entry === undefined || known === undefined || known === 'absent')
      return { isChanged: false, isForeign: false }
    const { family } = this.#options
    const comment = entry.wanted === undefined ? undefined : ownComment(entry.wanted.desired.name)
    const read = readOwnRules({ family, ...place, comment }, found)
    for (const { endpoint, slot } of read?.content.endpoints ?? []) {
      if (read?.isWhole === true || !entry.slots.has(endpoint)) entry.slots.set(endpoint, slot)
    }
    const state: KnownChain = read?.isWhole === true ? read.content : 'other'
    this.#setChain(name, state)
    const isSame = isSameChain(known, state) || isSameChain(this.targetOf(entry)[place.list], state)
    return {
      isChanged: !isSame && known !== 'other',
      isForeign: read?.isWhole !== true && found.length > ruleCountOf(known),
    }
  }

  #findOrAdd(id: string): OwnPortEntry {
    return this.entries.get(id) ?? this.entries.add(new OwnPortEntry(id))
  }

  #touch(entry: OwnPortEntry): void {
    this.#touched.add(entry)
    this.#settle(entry)
    if (entry.wanted !== undefined) this.entries.markDirty(entry)
  }

  #settle(entry: OwnPortEntry): void {
    this.#touched.add(entry)
    this.entries.settle(entry)
    if (entry.isUnused) this.#touched.delete(entry)
  }

  #chainOf(name: string): KnownChain | undefined {
    const place = parseOwnChainName(name)
    return place && (this.entries.get(place.id)?.acknowledged[place.list] ?? 'absent')
  }

  #setChain(name: string, state: KnownChain): void {
    const place = parseOwnChainName(name)
    if (place === undefined) return
    const entry = this.#findOrAdd(place.id)
    entry.acknowledged = { ...entry.acknowledged, [place.list]: state }
    this.#touch(entry)
  }

  #setClients(name: string, hasClients: boolean): void {
    const set = clientSet(this.#options.schema, name)
    if (set === undefined) return
    const entry = this.#findOrAdd(name.slice('clients-'.length))
    if (entry.acknowledged.hasClients === hasClients) return
    entry.acknowledged = { ...entry.acknowledged, hasClients }
    this.#touch(entry)
  }

  /**
   * Keeps the slots of endpoints that stay. With less time for each client than before, all endpoints get new slots: no client stays
   * longer than the time says.
   */
  #assignSlots(entry: OwnPortEntry, endpoints: ReadonlySet<PackedBytes>): void {
    const { wanted, acknowledged, slots } = entry
    const seconds = wanted?.desired.affinitySeconds ?? 0
    const isShorter = ownLists.some((list) => {
      const known = acknowledged[list]
      const isWanted = (wanted?.[list].length ?? 0) > 0
      return isWanted && typeof known === 'object' && known.affinitySeconds > seconds
    })
    if (isShorter) slots.clear()
    for (const endpoint of slots.keys()) if (!endpoints.has(endpoint)) slots.delete(endpoint)
    for (const endpoint of endpoints) {
      if (slots.has(endpoint)) continue
      slots.set(endpoint, this.#newSlot(entry))
    }
  }

  /**
   * 32 bits that depend on the service port, the time, and a count: a slot that a former endpoint had comes again once in 2^32 times. A
   * number that grows would not survive a restart, since the rules have no slots of former endpoints.
   */
  #newSlot(entry: OwnPortEntry): number {
    const used = new Set(entry.slots.values())
    for (;;) {
      const text = `${entry.id} ${this.#options.clock.unixMs()} ${entry.assigned++}`
      const slot = hash('sha256', text, 'buffer').readUInt32BE()
      if (slot !== 0 && !used.has(slot)) return slot
    }
  }
}

/** Number of rules of the states of an entry, for the size of a transaction. */
export function ruleCount({ wanted }: OwnPortEntry): number {
  return wanted === undefined
    ? 0
    : ownLists.reduce(
        (sum, list) => sum + (wanted[list].length === 0 ? 0 : ownRuleCount(wanted[list].length)),
        0,
      )
}

function ruleCountOf(chain: KnownChain): number {
  return typeof chain === 'string' ? 0 : ownRuleCount(chain.endpoints.length)
}

function slotOf({ slots }: OwnPortEntry, endpoint: PackedBytes): number {
  return slots.get(endpoint) ?? 0
}

function isSameChain(a: KnownChain, b: KnownChain): boolean {
  if (typeof a === 'string' || typeof b === 'string') return a === b && a === 'absent'
  return (
    a.protocol === b.protocol &&
    a.affinitySeconds === b.affinitySeconds &&
    a.endpoints.length === b.endpoints.length &&
    a.endpoints.every((each, index) => isSameEndpoint(each, b.endpoints[index]))
  )
}

/** The wanted endpoints: those of the chain in its order, then the others. */
function inKnownOrder(wanted: readonly PackedBytes[], known: KnownChain): readonly PackedBytes[] {
  if (typeof known === 'string') return wanted
  const left = new Set(wanted)
  const kept = known.endpoints.flatMap(({ endpoint }) => (left.delete(endpoint) ? [endpoint] : []))
  return [...kept, ...left]
}

function isSameEndpoint(a: SlottedEndpoint, b: SlottedEndpoint | undefined): boolean {
  return a.endpoint === b?.endpoint && a.slot === b.slot
}
