// A directory of all frontends by what they have in the kernel: from it follows which frontends have an element in a set.
import type { FrontendEntry } from './entries.js'
import { absent, type FrontendState, splitSources } from './frontend-state.js'
import type { FrontendId, Packer } from './packed.js'

/** Frontends that have elements in the same sets. */
interface Group {
  /** The state of the first one. */
  readonly state: FrontendState
  readonly isNodePort: boolean
  readonly ids: FrontendId[]
}

/** Made in parts, before its first use. Later changes of frontends are not in it. */
export class FrontendGroups {
  readonly #groups = new Map<string, Group>()
  readonly #rest: Iterator<FrontendEntry>
  readonly #packer: Pick<Packer, 'addressBytes'>
  #isWhole = false

  constructor(frontends: Iterable<FrontendEntry>, packer: Pick<Packer, 'addressBytes'>) {
    this.#rest = frontends[Symbol.iterator]()
    this.#packer = packer
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

  /** The frontends of a kind with a state of which this is true. */
  idsOf(isNodePort: boolean, isOne: (state: FrontendState) => boolean): readonly FrontendId[] {
    const ids: FrontendId[] = []
    for (const group of this.#groups.values()) {
      if (group.isNodePort !== isNodePort || !isOne(group.state)) continue
      for (const id of group.ids) ids.push(id)
    }
    return ids
  }

  #add({ id, acknowledged: state, isNodePort }: FrontendEntry): void {
    const key = this.#keyOf(state, isNodePort)
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
