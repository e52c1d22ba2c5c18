// A table of nf_tables that keeps VIPs from rules of other programs for the node's own addresses, such as `--dst-type LOCAL` of host
// ports: a VIP is such an address (docs/adr/0027).
import { isDeepStrictEqual } from 'node:util'
import { type IpAddress, type IpFamily, readAddress, writeAddress } from '../../address.js'
import { type FamilyContext, type FamilyParts, logFamily, type NatPlace } from '../../engine/index.js'
import { asRefusal, isNotFound, KernelError, orRefusal } from '../../errors.js'
import {
  isOwnTable,
  type Kernel,
  type NatGuardTable,
  NfElements,
  type NfExpression,
  type NfHook,
  type NfSet,
  type NfTablePlace,
  type NfTransaction,
  type Nftables,
  type XtFlavour,
  type NftChains,
} from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'

export interface NatGuardOptions extends Pick<FamilyContext & FamilyParts, 'family' | 'questions'> {
  readonly table: NatGuardTable
  /** The flavour in which the mode's own rules come first in table nat, and need no guard. Absent: the mode has no such rules. */
  readonly ownFlavour?: XtFlavour
  readonly nftables: Pick<Nftables, 'apply' | 'chains' | 'elements' | 'rules' | 'tablesWithNat'>
  readonly activeTables: Kernel['activeTables']
  /** Learns why VIPs are exposed. */
  readonly hints: StateReporter
  /**
   * Whether connections to VIPs are served as they should be without chains of type nat behind the guard. While they are not, no table is made
   * and no address added. Absent: they always are.
   */
  readonly mayGuard?: () => boolean
}

/** The set of VIPs. */
export function natGuardSet(family: IpFamily, table: NatGuardTable): NfSet {
  return { family, table, set: 'vips', key: [family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'] }
}

/** Before priority -100 of all known programs: their order of registration does not count. */
const priority = -101

const hooks: readonly NfHook[] = (['prerouting', 'output'] as const).map((hook) => ({
  type: 'nat',
  hook,
  priority,
}))

interface Translating {
  readonly translating: 'yes' | 'no' | 'no-nf-tables'
  readonly isPresent: boolean
}

/** Errors of a kernel without nf_tables, or without its chains of type nat. */
const absences: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EINVAL', 'EOPNOTSUPP', 'ENOENT'])

/** Elements of a transaction. 8000 IPv6 addresses are some 300 kB. */
const mostElements = 8000

/**
 * The table of one family. Its rules translate a connection to a VIP to the VIP itself: for the kernel the connection is translated then,
 * and no later chain of type nat sees it, of nf_tables and of the legacy tables alike. It exists only where another program
 * translates addresses, as a chain of type nat turns connection tracking on.
 */
export class NatGuard {
  readonly #options: NatGuardOptions
  readonly #set: NfSet
  readonly #vips = new Set<IpAddress>()
  #addresses: readonly IpAddress[] = []
  #machine: ReadonlySet<IpAddress> = new Set()
  /** Addresses whose element may have to come or go. Empty while the table is not needed: `read` then finds them. */
  readonly #dirty = new Set<IpAddress>()
  /** The kernel's elements; undefined: the table is absent, or another program changed it. */
  #acknowledged: Set<IpAddress> | undefined
  #isNeeded = false
  #isRead = false

  constructor(options: NatGuardOptions) {
    const { family, table } = options
    this.#options = options
    this.#set = natGuardSet(family, table)
  }

  /** The address becomes a VIP, or is none any more. */
  put(address: IpAddress, isVip: boolean): void {
    if (isVip) this.#vips.add(address)
    else this.#vips.delete(address)
    if (this.#isNeeded) this.#dirty.add(address)
  }

  /**
   * Takes in this machine's addresses. They have no element, also if a Service has one: the element would keep host ports of all numbers from
   * their connections.
   */
  setMachine(addresses: readonly IpAddress[]): void {
    if (addresses === this.#addresses) return
    const former = this.#machine
    this.#addresses = addresses
    this.#machine = new Set(addresses)
    if (!this.#isNeeded) return
    for (const address of [...former, ...addresses])
      if (this.#vips.has(address) && former.has(address) !== this.#machine.has(address))
        this.#dirty.add(address)
  }

  /** The place in table nat of the rule that keeps other rules from connections to this address. undefined: there is none. */
  placeOf(address: IpAddress): NatPlace | undefined {
    return this.#acknowledged?.has(address) === true ? { order: priority } : undefined
  }

  /** `write` has something to do. */
  get isWriteDue(): boolean {
    const { mayGuard = () => true } = this.#options
    const isDirty = this.#acknowledged === undefined ? this.#hasGuarded : this.#dirty.size > 0
    return this.#isNeeded && isDirty && mayGuard()
  }

  get #hasGuarded(): boolean {
    for (const address of this.#vips) if (this.#isGuarded(address)) return true
    return false
  }

  #isGuarded(address: IpAddress): boolean {
    return this.#vips.has(address) && !this.#machine.has(address)
  }

  /** Reads whether other programs translate, and the table. A refusal is reported; the former answer stays. */
  async read(): Promise<void> {
    const { family, hints } = this.#options
    const read = await this.#options.questions.ask(
      { key: 'read VIP guard', subject: this.#subject },
      async () => {
        const { translating, isPresent } = await this.#translating()
        if (translating === 'no' && isPresent) await this.#remove()
        return { translating, elements: translating === 'yes' ? await this.#readElements() : undefined }
      },
    )
    this.#isRead = true
    if (read instanceof KernelError) return
    const { translating, elements } = read
    const text = `${logFamily(family)}: the kernel has no nf_tables, so rules of table nat for the node's own addresses, such as those of host ports, take packets to VIPs`
    hints.report(`VIP guard ${family}`, translating === 'no-nf-tables' ? { text } : undefined)
    this.#isNeeded = translating === 'yes'
    this.#acknowledged = elements
    if (!this.#isNeeded) this.#dirty.clear()
    else for (const address of [...this.#vips, ...(elements ?? [])]) this.#dirty.add(address)
  }

  /**
   * Brings the VIPs to the kernel. The machine's own addresses go. `isComplete`: all VIPs are known, and other addresses go too. A refusal
   * is reported, and tried again in the next pass.
   */
  async write({ isComplete }: { readonly isComplete: boolean }): Promise<void> {
    if (!this.#isRead) await this.read()
    if (!this.isWriteDue) return
    const question = { key: 'write VIP guard', subject: this.#subject }
    const isWritten = await this.#options.questions.ask(question, async () => {
      if (this.#acknowledged === undefined) await this.#make()
      return await this.#change(this.#acknowledged ?? new Set(), isComplete)
    })
    if (isWritten !== true) this.#acknowledged = undefined
  }

  get #subject(): string {
    return `table ${this.#set.table} of nf_tables`
  }

  /** Whether another program translates addresses where the mode's own rules do not come first. `isPresent`: the table exists. */
  async #translating(): Promise<Translating> {
    const { family, nftables, activeTables, ownFlavour } = this.#options
    const hasNat = ownFlavour !== 'legacy' && (await activeTables(family, 'legacy')).includes('nat')
    try {
      const tables = await nftables.tablesWithNat(family)
      const isPresent = tables.some((place) => this.#isOwn(place, this.#set.table))
      const isOwnFlavour = (place: NfTablePlace): boolean => ownFlavour === 'nft' && this.#isOwn(place, 'nat')
      const others = tables.filter((place) => !isOwnTable(place.table) && !isOwnFlavour(place))
      return { translating: hasNat || others.length > 0 ? 'yes' : 'no', isPresent }
    } catch (error) {
      asRefusal(error, ({ code }) => absences.has(code))
      return { translating: hasNat ? 'no-nf-tables' : 'no', isPresent: false }
    }
  }

  #isOwn({ family, table }: NfTablePlace, name: string): boolean {
    return family === this.#options.family && table === name
  }

  /** undefined: the table is absent, or its chains and rules are not ours. */
  async #readElements(): Promise<Set<IpAddress> | undefined> {
    const { nftables, family } = this.#options
    const scope = { family, table: this.#set.table }
    const chains = await nftables.chains(scope)
    const rules = await nftables.rules(scope)
    const expected = hooks.map((hook) => ({ chain: hook.hook, hook, expressions: toItself(this.#set) }))
    const isOurs =
      chains.length === expected.length &&
      rules.length === expected.length &&
      expected.every(({ chain: name, hook, expressions }) => {
        const chain = chains.find((each) => each.chain === name)
        const rule = rules.find((each) => each.chain === name)
        return (
          isDeepStrictEqual({ ...chain?.hook, policy: undefined }, { ...hook, policy: undefined }) &&
          isDeepStrictEqual(rule?.expressions, expressions)
        )
      })
    if (!isOurs) return undefined
    try {
      const { bytes, stride, length } = await nftables.elements(this.#set)
      return new Set(Array.from({ length }, (_, index) => readAddress(bytes, index * stride, family)))
    } catch (error) {
      asRefusal(error, isNotFound)
      return undefined
    }
  }

  /** Makes the table without elements, in the place of the one that exists. */
  async #make(): Promise<void> {
    const { family, table } = this.#set
    const key = { family, table }
    const chains = hooks.map((hook) => ({ ...key, chain: hook.hook, hook }))
    const rules = chains.map(({ chain }) => ({ ...key, chain, expressions: toItself(this.#set) }))
    const isMade = await this.#apply([
      { op: 'add-table', table: key },
      { op: 'delete-table', table: key },
      { op: 'add-table', table: { ...key, comment: "keeps VIPs from rules for the node's addresses" } },
      { op: 'add-set', set: this.#set },
      ...chains.map((chain) => ({ op: 'add-chain', chain }) as const),
      ...rules.map((rule) => ({ op: 'add-rule', rule }) as const),
    ])
    if (!isMade) return
    this.#acknowledged = new Set()
    for (const address of this.#vips) this.#dirty.add(address)
  }

  /** Throws KernelError. */
  async #remove(): Promise<void> {
    const { family, table } = this.#set
    await this.#apply([
      { op: 'add-table', table: { family, table } },
      { op: 'delete-table', table: { family, table } },
    ])
  }

  /** False: an answer was lost. Throws KernelError. */
  async #change(acknowledged: Set<IpAddress>, isComplete: boolean): Promise<boolean> {
    const dirty = [...this.#dirty]
    const added = dirty.filter((address) => this.#isGuarded(address) && !acknowledged.has(address))
    const unwanted = dirty.filter((address) => !this.#isGuarded(address) && acknowledged.has(address))
    const removed = isComplete ? unwanted : unwanted.filter((address) => this.#machine.has(address))
    for (const part of partsOf(added)) {
      if (!(await this.#apply([{ op: 'add-elements', elements: this.#elements(part) }]))) return false
      for (const address of part) acknowledged.add(address)
    }
    for (const part of partsOf(removed)) {
      if (!(await this.#apply([{ op: 'delete-elements', elements: this.#elements(part) }]))) return false
      for (const address of part) acknowledged.delete(address)
    }
    for (const address of dirty)
      if (acknowledged.has(address) === this.#isGuarded(address)) this.#dirty.delete(address)
    return true
  }

  #elements(addresses: readonly IpAddress[]): NfElements {
    const elements = new NfElements(this.#set)
    for (const address of addresses) {
      const bytes = new Uint8Array(16)
      writeAddress(address, bytes, 0)
      elements.add(bytes.subarray(0, elements.layout.keyBytes))
    }
    return elements
  }

  /** False: the answer was lost. Throws KernelError. */
  async #apply(transaction: NfTransaction): Promise<boolean> {
    const { state, failures } = await this.#options.nftables.apply(transaction)
    const [failure] = failures
    if (failure !== undefined) throw failure.error
    return state === 'applied'
  }
}

function* partsOf(addresses: readonly IpAddress[]): Generator<readonly IpAddress[]> {
  for (let start = 0; start < addresses.length; start += mostElements)
    yield addresses.slice(start, start + mostElements)
}

/** `ip daddr @vips dnat to ip daddr`. */
function toItself({ family, set }: NfSet): readonly NfExpression[] {
  const isIPv4 = family === 'ipv4'
  const load = {
    kind: 'payload',
    to: 0,
    base: 'network',
    offset: isIPv4 ? 16 : 24,
    length: isIPv4 ? 4 : 16,
  } as const
  return [load, { kind: 'lookup', set, from: 0 }, load, { kind: 'nat', type: 'dnat', family, addressMin: 0 }]
}

/** Removes the table of both families. A failure in one family does not stop the other. `texts`: what was removed. */
export async function cleanUpNatGuard(
  nftChains: Pick<NftChains, 'discardTable'>,
  table: NatGuardTable,
): Promise<{ readonly texts: readonly string[]; readonly failures: readonly KernelError[] }> {
  const texts: string[] = []
  const failures: KernelError[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const isRemoved = await orRefusal(() => nftChains.discardTable(family, table))
    if (isRemoved === true) texts.push(`removed the table ${table} of nf_tables in ${logFamily(family)}`)
    else if (isRemoved !== false) failures.push(isRemoved)
  }
  return { texts, failures }
}
