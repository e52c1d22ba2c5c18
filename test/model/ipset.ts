// The kernel's IP sets in memory, with its error codes (net/netfilter/ipset/ip_set_core.c, ip_set_hash_gen.h, 6.18).
import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import { ipsetErrno, KernelError } from '../../src/errors.js'
import {
  describeIpsetEntry,
  describeIpsetOp,
  familyOfIpsetOp,
  type Ipset,
  type IpsetEntry,
  type IpsetHeader,
  type IpsetOp,
  type IpsetSettings,
  ipsetShapes,
} from '../../src/kernel/ipset/ipset.js'
import { encodeIpsetOps } from '../../src/kernel/ipset/encode.js'
import type { BatchOutcome } from '../../src/kernel/batch.js'
import { hostPrefixLength } from '../../src/kernel/records.js'
import { ModelBatches } from './faults.js'

const { EBUSY, EEXIST, ENOENT } = constants.errno

interface ModelSet {
  readonly settings: IpsetSettings
  readonly entries: Map<string, IpsetEntry>
}

const ports = 65_536

/** A bitmap has fixed values for family and size. */
function normalized(settings: IpsetSettings): IpsetSettings {
  return settings.type === 'bitmap:port' ? { ...settings, family: 'ipv4', maxElements: ports } : settings
}

/** Whether ip_set_create() treats the settings as equal. */
function isSame(a: IpsetSettings, b: IpsetSettings): boolean {
  return (
    a.type === b.type &&
    a.family === b.family &&
    a.maxElements === b.maxElements &&
    a.hasMarks === b.hasMarks &&
    a.hasComments === b.hasComments
  )
}

function canHold(
  { type, hasMarks, hasComments }: IpsetSettings,
  entry: IpsetEntry,
  family: IpFamily,
): number {
  if (entry.mark !== undefined && !hasMarks) return ipsetErrno.IPSET_ERR_SKBINFO
  if (entry.comment !== undefined && !hasComments) return ipsetErrno.IPSET_ERR_COMMENT
  const isNoAddress = entry.address === '0.0.0.0' || entry.address === '::'
  if (type === 'hash:ip' && isNoAddress) return ipsetErrno.IPSET_ERR_HASH_ELEM
  const { prefixLength } = entry
  const isNetwork = ipsetShapes[type].hasNetwork && prefixLength !== undefined
  const isWrong = isNetwork && (prefixLength === 0 || prefixLength > hostPrefixLength(family))
  return isWrong ? ipsetErrno.IPSET_ERR_INVALID_CIDR : 0
}

/** Ipset in memory. `batches` holds the injected faults and the log of operations. */
export class ModelIpset implements Ipset {
  readonly batches = new ModelBatches<IpsetOp>({
    subsystem: 'ipset',
    describe: describeIpsetOp,
    familyOf: familyOfIpsetOp,
  })
  /** Number of rules that refer to a set, by name. Tests set it. */
  readonly references = new Map<string, number>()
  readonly #sets = new Map<string, ModelSet>()
  readonly #numbers = new Map<string, number>()

  async apply(ops: readonly IpsetOp[]): Promise<BatchOutcome> {
    encodeIpsetOps(ops) // throws for operations that cannot be encoded
    return this.batches.apply(ops, (op) => this.#applyOne(op))
  }

  async sets(): Promise<readonly IpsetHeader[]> {
    this.batches.enter('sets')
    return this.#headers()
  }

  /** Text of all sets with this name prefix. Not a call of the kernel. */
  describe(prefix: string): string {
    return JSON.stringify(this.#headers().filter(({ name }) => name.startsWith(prefix)))
  }

  async number(name: string, family: IpFamily): Promise<number> {
    this.batches.enter('number', { object: name })
    const { settings } = this.#sets.get(name) ?? {}
    if (settings === undefined || (settings.type !== 'bitmap:port' && settings.family !== family))
      throw new KernelError({ errno: ENOENT, subsystem: 'ipset', operation: `find set ${name}`, family })
    const number = this.#numbers.get(name) ?? this.#numbers.size
    this.#numbers.set(name, number)
    return number
  }

  #headers(): readonly IpsetHeader[] {
    return Array.from(this.#sets, ([name, { settings, entries }]) => ({
      name,
      type: settings.type,
      family: settings.type === 'bitmap:port' ? undefined : settings.family,
      maxElements: settings.maxElements,
      hasMarks: settings.hasMarks,
      hasComments: settings.hasComments,
      references: this.#references(name),
      elements: entries.size,
    }))
  }

  async entries(name: string): Promise<Uint8Array> {
    this.batches.enter('entries', { object: name })
    const set = this.#sets.get(name)
    if (set === undefined)
      throw new KernelError({ errno: ENOENT, subsystem: 'ipset', operation: 'list entries', object: name })
    const { settings } = set
    const ops = Array.from(set.entries.values(), (entry): IpsetOp => {
      const { comment: _, ...listed } = entry
      return { op: 'add-entry', set: settings, entry: listed }
    })
    return encodeIpsetOps(ops).entries
  }

  async close(): Promise<void> {
    this.batches.close()
  }

  #references(name: string): number {
    return this.references.get(name) ?? 0
  }

  #applyOne(op: IpsetOp): number {
    switch (op.op) {
      case 'create-set':
        return this.#create(normalized(op.set))
      case 'destroy-set':
        if (!this.#sets.has(op.name)) return ENOENT
        if (this.#references(op.name) > 0) return EBUSY
        this.#sets.delete(op.name)
        return 0
      case 'flush-set':
        this.#sets.get(op.name)?.entries.clear()
        return this.#sets.has(op.name) ? 0 : ENOENT
      case 'swap-sets':
        return this.#swap(op.name, op.other)
      case 'rename-set':
        return this.#rename(op.name, op.to)
      case 'add-entry':
        return this.#add(op.set, op.entry)
      case 'delete-entry':
        return this.#delete(op.set, op.entry)
    }
  }

  #create(settings: IpsetSettings): number {
    const present = this.#sets.get(settings.name)
    if (present !== undefined) return isSame(present.settings, settings) ? 0 : EEXIST
    this.#sets.set(settings.name, { settings, entries: new Map() })
    return 0
  }

  /** Swaps the content of two sets. Rules keep the name to which they refer. */
  #swap(name: string, other: string): number {
    const [first, second] = [this.#sets.get(name), this.#sets.get(other)]
    if (first === undefined || second === undefined) return ENOENT
    const { type, family } = first.settings
    if (type !== second.settings.type || family !== second.settings.family)
      return ipsetErrno.IPSET_ERR_TYPE_MISMATCH
    this.#sets.set(name, second)
    this.#sets.set(other, first)
    return 0
  }

  #rename(name: string, to: string): number {
    const set = this.#sets.get(name)
    if (set === undefined) return ENOENT
    if (this.#references(name) > 0) return EBUSY
    if (this.#sets.has(to)) return EEXIST
    this.#sets.delete(name)
    this.#sets.set(to, set)
    return 0
  }

  #add({ name }: IpsetSettings, entry: IpsetEntry): number {
    const set = this.#sets.get(name)
    if (set === undefined) return ENOENT
    const errno = canHold(set.settings, entry, set.settings.family)
    if (errno !== 0) return errno
    const key = describeIpsetEntry(entry)
    if (!set.entries.has(key) && set.entries.size >= set.settings.maxElements)
      return ipsetErrno.IPSET_ERR_HASH_FULL
    set.entries.set(key, entry)
    return 0
  }

  #delete({ name }: IpsetSettings, entry: IpsetEntry): number {
    const set = this.#sets.get(name)
    if (set === undefined) return ENOENT
    const errno = canHold(set.settings, entry, set.settings.family)
    if (errno === 0) set.entries.delete(describeIpsetEntry(entry))
    return errno
  }
}
