import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import { ipsetErrno, KernelError } from '../../errors.js'
import { IpsetEntryCursor } from '../ipset/cursor.js'
import {
  describeIpsetEntry,
  describeIpsetOp,
  familyOfIpsetOp,
  type Ipset,
  type IpsetEntry,
  type IpsetHeader,
  type IpsetOp,
  type IpsetSettings,
  type IpsetType,
  ipsetShapes,
} from '../ipset/ipset.js'
import { encodeIpsetOps } from '../ipset/encode.js'
import type { BatchOutcome } from '../batch.js'
import { planBatch } from './planned-batch.js'
import { plannedSetIndex } from './planned-set-index.js'

const { EBUSY, EEXIST, ENOENT } = constants.errno

/** IPSET_ERR_TYPE_MISMATCH and others are no errnos, but failures carry them as such. */
const { IPSET_ERR_TYPE_MISMATCH } = ipsetErrno

interface PlannedSet {
  readonly header: IpsetHeader
  /** The kernel's set whose entries are not read yet; undefined: `entries` has them all. */
  unread: string | undefined
  entries: Map<string, IpsetEntry>
}

/** Counts the planned rules that refer to each set. */
export type CountSetReferences = () => Promise<ReadonlyMap<string, number>>

/** The sets of a plan. The kernel's sets are read at the first call, the entries of a set when a call concerns them. */
export class PlannedIpset implements Ipset {
  readonly #real: Ipset
  readonly #isLoaded: boolean
  readonly #countReferences: CountSetReferences
  #sets: Promise<Map<string, PlannedSet>> | undefined

  /** `isLoaded` false: ipset is not loaded, and has no sets. */
  constructor(real: Ipset, isLoaded: boolean, countReferences: CountSetReferences) {
    this.#real = real
    this.#isLoaded = isLoaded
    this.#countReferences = countReferences
  }

  async apply(ops: readonly IpsetOp[]): Promise<BatchOutcome> {
    const sets = await this.#read()
    for (const op of ops)
      if (op.op === 'add-entry' || op.op === 'delete-entry') await this.#readEntries(sets.get(op.set.name))
    const isReferenced = ops.some(({ op }) => op === 'destroy-set' || op === 'rename-set')
    const references = isReferenced ? await this.#references(sets) : new Map<string, number>()
    const words = { subsystem: 'ipset', describe: describeIpsetOp, familyOf: familyOfIpsetOp } as const
    return planBatch(ops, words, (op) => applyOne(sets, references, op))
  }

  async sets(): Promise<readonly IpsetHeader[]> {
    const sets = await this.#read()
    const references = await this.#references(sets)
    return [...sets].map(([name, { header, unread, entries }]) => ({
      ...header,
      name,
      references: references.get(name) ?? 0,
      elements: unread === undefined ? entries.size : header.elements,
    }))
  }

  async entries(name: string): Promise<Uint8Array> {
    const set = (await this.#read()).get(name)
    if (set === undefined) throw absent('list entries', name)
    if (set.unread !== undefined) return await this.#real.entries(set.unread)
    const settings = settingsOf(name, set.header)
    const ops = [...set.entries.values()].map((entry): IpsetOp => ({ op: 'add-entry', set: settings, entry }))
    return encodeIpsetOps(ops).entries
  }

  async number(name: string, family: IpFamily): Promise<number> {
    const set = (await this.#read()).get(name)
    if (set === undefined || (set.header.family !== undefined && set.header.family !== family))
      throw absent(`find set ${name}`)
    try {
      return this.#isLoaded ? await this.#real.number(name, family) : plannedSetIndex(name)
    } catch (error) {
      if (error instanceof KernelError && error.code === 'ENOENT') return plannedSetIndex(name)
      throw error
    }
  }

  /** The names of all sets. */
  async names(): Promise<readonly string[]> {
    return [...(await this.#read()).keys()]
  }

  close(): Promise<void> {
    return this.#real.close()
  }

  #read(): Promise<Map<string, PlannedSet>> {
    return (this.#sets ??= this.#readSets())
  }

  async #readSets(): Promise<Map<string, PlannedSet>> {
    const headers = this.#isLoaded ? await this.#real.sets() : []
    return new Map(
      headers.map((header) => [header.name, { header, unread: header.name, entries: new Map() }]),
    )
  }

  async #readEntries(set: PlannedSet | undefined): Promise<void> {
    if (set?.unread === undefined || !isKnownType(set.header.type)) return
    const cursor = new IpsetEntryCursor(await this.#real.entries(set.unread), set.header.type)
    for (let index = 0; index < cursor.length; index++) {
      const entry = cursor.entry(index)
      set.entries.set(describeIpsetEntry(entry), entry)
    }
    set.unread = undefined
  }

  /** The kernel's numbers, unless the plan may have removed rules. */
  async #references(sets: ReadonlyMap<string, PlannedSet>): Promise<ReadonlyMap<string, number>> {
    const isAny = [...sets.values()].some(({ header }) => header.references > 0)
    return isAny ? await this.#countReferences() : new Map()
  }
}

function isKnownType(type: string): type is IpsetType {
  return type in ipsetShapes
}

function absent(operation: string, object?: string): KernelError {
  const subject = object === undefined ? {} : { object }
  return new KernelError({ errno: ENOENT, subsystem: 'ipset', operation, ...subject })
}

function settingsOf(name: string, header: IpsetHeader): IpsetSettings {
  const { type, family = 'ipv4', maxElements, hasMarks, hasComments } = header
  if (!isKnownType(type)) throw absent(`read sets of type ${type}`, name)
  return { name, type, family, maxElements, hashSize: 64, hasMarks, hasComments }
}

function headerOf({ name, type, family, maxElements, hasMarks, hasComments }: IpsetSettings): IpsetHeader {
  const own = type === 'bitmap:port' ? { family: undefined, maxElements: 65_536 } : { family, maxElements }
  return { name, type, ...own, hasMarks, hasComments, references: 0, elements: 0 }
}

/** Whether ip_set_create() treats the sets as equal. */
function isSame(a: IpsetHeader, b: IpsetHeader): boolean {
  const fields = ['type', 'family', 'maxElements', 'hasMarks', 'hasComments'] as const
  return fields.every((field) => a[field] === b[field])
}

/** An errno, or 0. */
function applyOne(
  sets: Map<string, PlannedSet>,
  references: ReadonlyMap<string, number>,
  op: IpsetOp,
): number {
  if (op.op === 'create-set') {
    const header = headerOf(op.set)
    const present = sets.get(op.set.name)
    if (present !== undefined) return isSame(present.header, header) ? 0 : EEXIST
    sets.set(op.set.name, { header, unread: undefined, entries: new Map() })
    return 0
  }
  const name = 'set' in op ? op.set.name : op.name
  const set = sets.get(name)
  if (set === undefined) return ENOENT
  switch (op.op) {
    case 'destroy-set':
      if ((references.get(name) ?? 0) > 0) return EBUSY
      sets.delete(name)
      return 0
    case 'flush-set':
      set.unread = undefined
      set.entries = new Map()
      return 0
    case 'swap-sets':
      return swap(sets, name, op.other)
    case 'rename-set':
      if (sets.has(op.to)) return EEXIST
      sets.delete(name)
      sets.set(op.to, set)
      return 0
    case 'add-entry':
      set.entries.set(describeIpsetEntry(op.entry), op.entry)
      return 0
    case 'delete-entry':
      set.entries.delete(describeIpsetEntry(op.entry))
      return 0
  }
}

/** Two sets exchange their content. Rules keep the name to which they refer. */
function swap(sets: Map<string, PlannedSet>, name: string, other: string): number {
  const [first, second] = [sets.get(name), sets.get(other)]
  if (first === undefined || second === undefined) return ENOENT
  const { type, family } = first.header
  if (type !== second.header.type || family !== second.header.family) return IPSET_ERR_TYPE_MISMATCH
  sets.set(name, second)
  sets.set(other, first)
  return 0
}
