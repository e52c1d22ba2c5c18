// The nf_tables of one network namespace in memory: tables with their chains, sets and counters.
import type { IpFamily } from '../../src/address.js'
import { elementsOfLookup } from '../../src/kernel/nftables/anonymous-sets.js'
import { expression as expressionCodec, type NfExpression } from '../../src/kernel/nftables/expressions.js'
import type { NftChangedObject } from '../../src/kernel/nftables/changes.js'
import type { NfElements } from '../../src/kernel/nftables/elements.js'
import type {
  NfChain,
  NfRule,
  NfRuleState,
  NfSet,
  NfTable,
  NfTableState,
} from '../../src/kernel/nftables/nftables.js'
import { StreamReader, StreamWriter } from '../../src/kernel/nftables/stream.js'

export interface ModelElement {
  readonly key: Uint8Array
  readonly keyEnd: Uint8Array
  readonly isIntervalEnd: boolean
  readonly timeoutMs: number
  /** The data to compare: bytes, verdict or name. */
  readonly content: string
  /** The chain of the verdict. */
  readonly chain: string | undefined
  addTo(elements: NfElements): void
}

export interface ModelNfChain {
  readonly chain: NfChain
  readonly handle: number
  rules: readonly NfRuleState[]
}

export interface ModelNfSet {
  readonly set: NfSet
  readonly handle: number
  readonly elements: Map<string, ModelElement>
}

export interface ModelNfTable {
  state: NfTableState
  readonly chains: Map<string, ModelNfChain>
  readonly sets: Map<string, ModelNfSet>
  readonly counters: Set<string>
  nextHandle: number
  /** Number in the name of the next anonymous set. */
  nextAnonymous: number
}

/** Reverts one change. A refused transaction calls them in reverse order. */
type Undo = () => void

/** The state that several ModelNftables of one network namespace share. */
export class ModelNftNamespace {
  readonly tables: Readonly<Record<IpFamily, Map<string, ModelNfTable>>> = {
    ipv4: new Map(),
    ipv6: new Map(),
  }
  generation = 1
  /** Called with the objects of each transaction that changed something, and the port id of its writer. */
  readonly listeners = new Set<(objects: readonly NftChangedObject[], port: number) => void>()
  #nextPort = 100
  #nextTableHandle = 1

  takePort(): number {
    return this.#nextPort++
  }

  /** Deletes the tables of this owner. Persistent tables only lose their owner. */
  release(port: number): void {
    for (const tables of Object.values(this.tables)) {
      for (const [name, table] of tables) {
        const { owner, ...state } = table.state
        if (owner !== port) continue
        if (state.flags?.includes('persist') === true) table.state = state
        else tables.delete(name)
      }
    }
  }

  /** Deletes a table with its content; false: it was absent. */
  discardTable(family: IpFamily, table: string, port: number): boolean {
    if (!this.tables[family].delete(table)) return false
    this.generation++
    for (const listener of this.listeners) listener([{ kind: 'table', family, table, name: '' }], port)
    return true
  }

  makeTable(table: NfTable, port: number): ModelNfTable {
    const isOwned = table.flags?.includes('owner') === true
    return {
      state: {
        ...table,
        handle: this.#nextTableHandle++,
        ...(isOwned ? { owner: port } : {}),
      },
      chains: new Map(),
      sets: new Map(),
      counters: new Set(),
      nextHandle: 1,
      nextAnonymous: 0,
    }
  }
}

/** The changes of one transaction so far, and the functions that revert them. */
export class ModelNftChanges {
  readonly #undo: Undo[] = []
  readonly #objects = new Map<string, NftChangedObject>()

  get objects(): readonly NftChangedObject[] {
    return [...this.#objects.values()]
  }

  note(object: NftChangedObject, undo: Undo): void {
    this.#objects.set(Object.values(object).join('\0'), object)
    this.#undo.push(undo)
  }

  takeBack(): void {
    for (const undo of this.#undo.toReversed()) undo()
  }
}

export function setEntry<K, V>(map: Map<K, V>, key: K, value: V | undefined): Undo {
  const before = map.get(key)
  if (value === undefined) map.delete(key)
  else map.set(key, value)
  return () => {
    if (before === undefined) map.delete(key)
    else map.set(key, before)
  }
}

/** The expressions in the form of a dump. `nextNumber` gives the number in the name of an anonymous set. */
export function shown(
  expressions: readonly NfExpression[],
  nextNumber: () => number,
): readonly NfExpression[] {
  const stream = new StreamWriter()
  for (const expression of expressions) expressionCodec.write(stream, expression)
  const reader = new StreamReader(stream.finish())
  return expressions.map((given) => {
    const read = expressionCodec.read(reader)
    const elements = elementsOfLookup(given)
    if (read.kind !== 'lookup' || elements === undefined) return read
    return { ...read, set: read.set.replace('%d', String(nextNumber())), elements }
  })
}

export function elementsOf(elements: NfElements | undefined): readonly ModelElement[] {
  if (elements === undefined) return []
  return Array.from({ length: elements.length }, (_, index) => modelElement(elements, index))
}

function modelElement(elements: NfElements, index: number): ModelElement {
  const { data } = elements.set
  const key = elements.key(index).slice()
  const keyEnd = elements.keyEnd(index).slice()
  if (elements.isIntervalEnd(index)) return endOfInterval(key)
  const timeoutMs = elements.timeoutMs(index)
  const leftMs = elements.expirationMs(index)
  const times = { timeoutMs, expirationMs: leftMs === 0 ? timeoutMs : leftMs }
  const common = { key, keyEnd, isIntervalEnd: false, timeoutMs, chain: undefined }
  if (data === 'verdict') {
    const verdict = elements.verdict(index)
    return {
      ...common,
      chain: verdict.chain,
      content: `${verdict.code} ${verdict.chain ?? ''}`,
      addTo: (to) => to.add(key, { keyEnd, verdict, ...times }),
    }
  }
  if (data === 'counter') {
    const counter = elements.counter(index)
    return { ...common, content: counter, addTo: (to) => to.add(key, { keyEnd, counter, ...times }) }
  }
  const value = data === undefined ? undefined : elements.data(index).slice()
  const extras = { keyEnd, ...times, ...(value === undefined ? {} : { data: value }) }
  return {
    ...common,
    content: value === undefined ? '' : Buffer.from(value).toString('hex'),
    addTo: (to) => to.add(key, extras),
  }
}

function endOfInterval(key: Uint8Array): ModelElement {
  return {
    key,
    keyEnd: key,
    isIntervalEnd: true,
    timeoutMs: 0,
    content: '',
    chain: undefined,
    addTo: (to) => to.add(key, { isIntervalEnd: true }),
  }
}

/** Key of an element in its set. The end of an interval is a separate element. */
export function elementKey({
  key,
  keyEnd,
  isIntervalEnd,
}: Pick<ModelElement, 'key' | 'keyEnd' | 'isIntervalEnd'>): string {
  return `${Buffer.from(key).toString('hex')} ${Buffer.from(keyEnd).toString('hex')} ${isIntervalEnd}`
}

/** Chains to which a rule jumps, also by the elements of its anonymous sets. */
export function targetsOf({ expressions }: Pick<NfRule, 'expressions'>): readonly string[] {
  const elements = expressions.flatMap((expression) => elementsOf(elementsOfLookup(expression)))
  const verdicts = expressions.flatMap((expression) =>
    expression.kind === 'immediate' && 'verdict' in expression.data ? [expression.data.verdict] : [],
  )
  return [...verdicts, ...elements].flatMap(({ chain }) => chain ?? [])
}

/** Sets that a rule uses, without anonymous ones. */
export function setsOf({ expressions }: Pick<NfRule, 'expressions'>): readonly string[] {
  return expressions.flatMap((expression) => {
    const isUser =
      expression.kind === 'lookup' || expression.kind === 'dynset' || expression.kind === 'objref'
    const isAnonymous = elementsOfLookup(expression) !== undefined
    return isUser && !isAnonymous && expression.set !== undefined ? [expression.set] : []
  })
}

/** Named counters that a rule uses. */
export function countersOf({ expressions }: Pick<NfRule, 'expressions'>): readonly string[] {
  return expressions.flatMap((expression) =>
    expression.kind === 'objref' && expression.name !== undefined ? [expression.name] : [],
  )
}
