// NftTable on the model of nf_tables, with a clock that tests move.
import { Registry } from 'prom-client'
import type { IpFamily } from '../../src/address.js'
import { Pass } from '../../src/engine/index.js'
import { NfElements, type NfOp, type NfSet, type Nftables, packFields } from '../../src/kernel/index.js'
import { StateReporter } from '../../src/log.js'
import { openMetrics } from '../../src/metrics/index.js'
import type { ServicePortKey } from '../../src/model/index.js'
import { type NftModeSettings } from '../../src/layers/nft-table/index.js'
import { compileRoute, type DesiredRoute, elementsOf, NftTable } from '../../src/layers/nft-table/testing.js'
import { FrontendOwners, type Route } from '../../src/routing/index.js'
import type { ModelNftNamespace } from '../model/index.js'
import { ModelNftables } from '../model/nftables.js'
import { ManualClock } from './manual-clock.js'
import { makeNftSettings } from './nft-table.js'
import { MemoryLog } from './pipeline-lab.js'

export interface NftLabOptions {
  readonly namespace?: ModelNftNamespace
  readonly settings?: NftModeSettings
  readonly isComplete?: boolean
  /** As in `NftTableOptions`. */
  readonly sliceCost?: number
}

/** One NftTable with its surroundings. */
export class NftLab<N extends Nftables = ModelNftables> {
  readonly log = new MemoryLog()
  readonly clock = new ManualClock()
  readonly registry = new Registry()
  readonly nftables: N
  readonly tables: NftTable
  readonly settings: NftModeSettings
  readonly #metrics = openMetrics(this.registry)
  readonly #problems: StateReporter
  readonly #owners = new FrontendOwners()
  readonly #routes = new Map<ServicePortKey, Route>()
  #isComplete: boolean

  constructor(
    nftables: N,
    { settings = makeNftSettings(), isComplete = true, sliceCost }: Omit<NftLabOptions, 'namespace'>,
  ) {
    const { family } = settings
    this.nftables = nftables
    this.settings = settings
    this.#isComplete = isComplete
    this.#problems = new StateReporter({
      log: this.log,
      level: 'error',
      problemLine: 'Cannot be programmed',
      recovery: 'Programmed again',
      clock: this.clock,
      count: () => {},
    })
    this.tables = new NftTable({
      family,
      nftables,
      clock: this.clock,
      log: this.log,
      metrics: this.#metrics[family],
      problems: this.#problems,
      warnings: this.#problems,
      portNameOf: (route) => route,
      sliceCost,
    })
    this.tables.setSettings(settings)
  }

  get family(): IpFamily {
    return this.settings.family
  }

  /** As the engine does it: each frontend has one owner. */
  claim(...routes: readonly Route[]): void {
    for (const route of routes) {
      this.#routes.set(route.key, route)
      this.#claimServed([route.key, ...this.#owners.claim(route, route)])
    }
  }

  release(...keys: readonly ServicePortKey[]): void {
    for (const key of keys) {
      this.#routes.delete(key)
      this.#claimServed([key, ...this.#owners.release(key)])
    }
  }

  #claimServed(keys: Iterable<ServicePortKey>): void {
    for (const key of new Set(keys)) {
      const route = this.#routes.get(key)
      const served = route && this.#owners.without(route)
      this.tables.claim(key, served && compileRoute(served, this.settings))
    }
  }

  /** All objects are known from now on. */
  complete(): void {
    this.#isComplete = true
  }

  /** All slices of a comparison, with nothing between them. True: the kernel differs. */
  async compare(kind: 'partial' | 'full' = 'full'): Promise<boolean> {
    let isDifferent = await this.tables.look(kind)
    while (this.tables.isComparing) isDifferent = (await this.tables.look('next')) || isDifferent
    return isDifferent
  }

  /** One pass; resolves with what `write` says. */
  async write(): Promise<boolean> {
    return (await this.pass()).isWritten
  }

  /** The write that removes what no rule leads to any more, a second after the last write. */
  async cleanUp(): Promise<void> {
    await this.clock.advance(1000)
    await this.write()
  }

  async pass(): Promise<{ readonly isWritten: boolean; readonly pass: Pass }> {
    const { clock, log } = this
    const metrics = this.#metrics[this.family]
    const pass = new Pass({ family: this.family, clock, log, metrics })
    const isWritten = await this.tables.write(pass, { isComplete: this.#isComplete })
    return { isWritten, pass }
  }
}

/** The table's content in the model. */
export function modelContent({ nftables, family }: NftLab): TableContent {
  const table = nftables.namespace.tables[family].get('kube-proxy')
  const sets = [...(table?.sets.values() ?? [])]
  return contentOf(
    sets.map(({ set, elements: kept }) => {
      const elements = new NfElements(set)
      for (const element of kept.values()) element.addTo(elements)
      return { set, elements }
    }),
  )
}

/** A lab on the model; labs with one namespace see the same kernel. */
export function openNftLab({ namespace, ...options }: NftLabOptions = {}): NftLab {
  return new NftLab(new ModelNftables(namespace), options)
}

/** Sets by name with their elements as text, sorted. Sets of clients, which rules fill, are left out. */
export type TableContent = Readonly<Record<string, readonly string[]>>

export function contentOf(
  sets: readonly { readonly set: NfSet; readonly elements: NfElements }[],
): TableContent {
  const content: Record<string, readonly string[]> = {}
  for (const { set, elements } of sets) {
    if (set.flags?.includes('dynamic') === true) continue
    const lines = Array.from({ length: elements.length }, (_, index) => elementText(elements, index))
    if (lines.length > 0) content[set.set] = lines.toSorted()
  }
  return content
}

function dataOf(elements: NfElements, index: number): Uint8Array {
  const { data } = elements.set
  if (data === 'verdict') return Buffer.from(elements.verdict(index).chain ?? '')
  return typeof data === 'object' ? elements.data(index) : new Uint8Array(0)
}

function elementText(elements: NfElements, index: number): string {
  const data = dataOf(elements, index)
  const end = elements.isIntervalEnd(index) ? ' end' : ''
  return `${Buffer.from(elements.key(index)).toString('hex')} ${Buffer.from(data).toString('hex')}${end}`
}

/** The content that the routes want, with endpoints in the order of their lists. */
export function wantedContent(routes: readonly DesiredRoute[], family: IpFamily): TableContent {
  const content: Record<string, Set<string>> = {}
  for (const route of routes) {
    for (const { set, key, data, chain = '' } of elementsOf(route, family)) {
      const fields = typeof set.data === 'object' ? set.data : []
      const value = Buffer.from(data === undefined ? chain : packFields(fields, data)).toString('hex')
      const line = `${Buffer.from(packFields(set.key, key)).toString('hex')} ${value}`
      ;(content[set.set] ??= new Set()).add(line)
    }
  }
  return Object.fromEntries(Object.entries(content).map(([set, lines]) => [set, [...lines].toSorted()]))
}

const endpointMap = /^(?<list>.*-endpoint)-(?<index>\d+)$/u

/**
 * The same content, with the endpoints of a frontend in the order of their bytes. Throws when the indices of a list are not 0, 1, ..: the
 * index is in the name of the map.
 */
export function inByteOrder(content: TableContent): TableContent {
  const lists: Record<string, Lists> = {}
  const others: Record<string, readonly string[]> = {}
  for (const [set, lines] of Object.entries(content)) {
    const { list, index } = endpointMap.exec(set)?.groups ?? {}
    if (list === undefined) others[set] = lines
    else for (const line of lines) addEndpoint((lists[`${list}s`] ??= new Map()), line, Number(index))
  }
  const ordered = Object.entries(lists).map(([name, list]) => [name, linesOf(list)] as const)
  return { ...others, ...Object.fromEntries(ordered) }
}

type Lists = Map<string, { readonly data: string[]; readonly indices: number[] }>

function addEndpoint(lists: Lists, line: string, index: number): void {
  const [key = '', data = ''] = line.split(' ')
  const list = lists.get(key) ?? { data: [], indices: [] }
  lists.set(key, list)
  list.data.push(data)
  list.indices.push(index)
}

function linesOf(lists: Lists): readonly string[] {
  return [...lists]
    .flatMap(([key, { data, indices }]) => {
      const ascending = indices.toSorted((a, b) => a - b)
      if (ascending.some((index, place) => index !== place))
        throw new Error(`${key}: indices ${ascending.join()}`)
      return data.toSorted().map((each) => `${key} ${each}`)
    })
    .toSorted()
}

/** Number of elements by operation: `{ 'add-elements': 2 }`. */
export function countElements(transactions: readonly (readonly NfOp[])[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const op of transactions.flat())
    counts[op.op] = (counts[op.op] ?? 0) + ('elements' in op ? op.elements.length : 1)
  return counts
}
