// A directory of all frontends by what they have in the kernel: from it follows which frontends have an element in a set.
import type { FrontendEntry } from './entries.js'
import { absent, type FrontendState, holeOf, splitSources } from './frontend-state.js'
import type { FrontendId, Packer } from './packed.js'

/** Frontends that have elements in the same sets. */
interface Group {
  /** The state of the first one. */
  readonly state: FrontendState
  readonly isNodePort: boolean
  readonly ids: FrontendId[]
}

/** Made in parts, before its first use. Frontends that changed since its beginning are in it when `noteChanged` named them. */
export class FrontendGroups {
  readonly #groups = new Map<string, Group>()
  readonly #changed = new Set<FrontendEntry>()
  readonly #rest: Iterator<FrontendEntry>
  readonly #packer: Pick<Packer, 'addressBytes' | 'endpointBytes'>
  readonly #hole: string
  #isWhole = false

  constructor(frontends: Iterable<FrontendEntry>, packer: Pick<Packer, 'addressBytes' | 'endpointBytes'>) {
    this.#rest = frontends[Symbol.iterator]()
    this.#packer = packer
    this.#hole = holeOf(packer.endpointBytes)
  }

  /** All frontends are in it. */
  get isWhole(): boolean {
    return this.#isWhole
  }

  /** Takes in so many more frontends. */
  takeIn(count: number): void {
    for (let left = count; left > 0; left--) {
      const { value: entry, done } = this.#rest.next()
      if (done === true) {
        this.#isWhole = true
        return
      }
      if (entry.acknowledged !== absent) this.#add(entry)
    }
  }

  /** The frontend's acknowledged state differs from that at the beginning. */
  noteChanged(entry: FrontendEntry): void {
    this.#changed.add(entry)
  }

  /** The frontends of a kind with a state of which this is true, at the beginning or now. */
  idsOf(isNodePort: boolean, isOne: (state: FrontendState) => boolean): readonly FrontendId[] {
    const ids: FrontendId[] = []
    for (const group of this.#groups.values()) {
      if (group.isNodePort !== isNodePort || !isOne(group.state)) continue
      for (const id of group.ids) ids.push(id)
    }
    for (const { id, acknowledged, isNodePort: isOther } of this.#changed)
      if (isOther === isNodePort && isOne(acknowledged)) ids.push(id)
    return ids
  }

  #add({ id, acknowledged: state, isNodePort }: FrontendEntry): void {
    // Each has its own holes.
    const hasHoles = state.endpoints.includes(this.#hole) || state.shortCircuit.includes(this.#hole)
    const key = hasHoles ? id : this.#keyOf(state, isNodePort)
    const group = this.#groups.get(key)
    if (group === undefined) this.#groups.set(key, { state, isNodePort, ids: [id] })
    else group.ids.push(id)
  }

  #keyOf(state: FrontendState, isNodePort: boolean): string {
    const { count, bucket, endpoints, shortCircuitCount, shortCircuitBucket, shortCircuit } = state
    const { flags, sources } = state
    const chains = `${state.chain === ''} ${state.shortCircuitChain === ''}`
    const own = `${isNodePort} ${chains} ${flags} ${count} ${bucket} ${endpoints.length}`
    const other =
      shortCircuit === '' ? '' : ` ${shortCircuitCount} ${shortCircuitBucket} ${shortCircuit.length}`
    return own + other + (sources === '' ? '' : ` ${this.#lengthsOf(sources)}`)
  }

  #lengthsOf(sources: string): string {
    return splitSources(sources, this.#packer.addressBytes)
      .map((network) => network.charCodeAt(0))
      .join()
  }
}
