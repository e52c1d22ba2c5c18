import type { ServicePortKey } from '../../model/index.js'
import type { DesiredFrontend, Frontend } from './compile/desired.js'

interface Claim {
  readonly route: ServicePortKey
  readonly service: string
  /** One for each dispatch chain that has to know the frontend. */
  readonly desired: readonly DesiredFrontend[]
}

/** A service port that may not have its frontend because another one, sorting before it, claims the same (docs/adr/0007). */
export interface FrontendConflict {
  /** `tcp 10.96.0.1:80`. */
  readonly frontend: string
  readonly loser: ServicePortKey
  /** Who has it: the loser itself when it lost at the last call and won since; undefined when it claims it no more. */
  readonly winner: ServicePortKey | undefined
}

const nobody: ReadonlySet<ServicePortKey> = new Set()

/** One frontend and the service ports that want it. */
class Entry {
  readonly name: string
  /** Ports of one Service are no rivals: they want it for the Service as a whole. */
  readonly #isShared: boolean
  /** Sorted by route; nearly always one. */
  readonly #claims: Claim[] = []
  /** Those that lost at the last `takeConflicts`. */
  #losers = nobody

  constructor(name: string, { isShared }: { readonly isShared: boolean }) {
    this.name = name
    this.#isShared = isShared
  }

  get winner(): Claim | undefined {
    return this.#claims[0]
  }

  get isForgettable(): boolean {
    return this.#claims.length === 0 && this.#losers.size === 0
  }

  put(claim: Claim): void {
    this.remove(claim.route)
    this.#claims.push(claim)
    if (this.#claims.length > 1) this.#claims.sort((a, b) => (a.route < b.route ? -1 : 1))
  }

  remove(route: ServicePortKey): void {
    const index = this.#claims.findIndex((claim) => claim.route === route)
    if (index !== -1) this.#claims.splice(index, 1)
  }

  takeConflicts(): readonly FrontendConflict[] {
    if (this.#claims.length < 2 && this.#losers.size === 0) return []
    const [first, ...others] = this.#claims
    const winner = first?.route
    const rivals = others.filter(({ service }) => !this.#isShared || service !== first?.service)
    const losers = new Set(rivals.map(({ route }) => route))
    const conflicts = [...new Set([...this.#losers, ...losers])].map((loser) => {
      const isClaimed = this.#claims.some(({ route }) => route === loser)
      const isBeaten = losers.has(loser)
      return {
        frontend: this.name,
        loser,
        winner: isBeaten ? winner : isClaimed ? loser : undefined,
      }
    })
    this.#losers = losers
    return conflicts
  }
}

/** How the rules of a frontend changed: undefined: there are none (any more). */
export interface FrontendChange {
  readonly before: readonly DesiredFrontend[]
  readonly after: readonly DesiredFrontend[]
}

/**
 * Who owns which frontend. A frontend has one owner in all of its dispatch chains together: a Service that is refused in one
 * table must not be served in another.
 */
export class FrontendTable {
  readonly #entries = new Map<string, Entry>()
  readonly #namesOf = new Map<ServicePortKey, readonly string[]>()
  readonly #touched = new Set<Entry>()

  get size(): number {
    return this.#entries.size
  }

  /** Replaces all frontends that the route claims; an empty list releases it. Returns what that changes in dispatch chains. */
  claim(
    route: ServicePortKey,
    service: string,
    desired: readonly DesiredFrontend[],
  ): readonly FrontendChange[] {
    const names = desired.map(nameOf)
    const wanted = names.filter((name, i) => names.indexOf(name) === i)
    const changes: FrontendChange[] = []
    for (const name of wanted) {
      const wishes = wanted.length === 1 ? desired : desired.filter((_, i) => names[i] === name)
      this.#change(name, (entry) => entry.put({ route, service, desired: wishes }), changes)
    }
    for (const name of this.#namesOf.get(route) ?? []) {
      if (!wanted.includes(name)) this.#change(name, (entry) => entry.remove(route), changes)
    }
    if (wanted.length > 0) this.#namesOf.set(route, wanted)
    else this.#namesOf.delete(route)
    return changes
  }

  /** Conflicts of the frontends that were claimed or released since the last call, and those that ended. */
  takeConflicts(): readonly FrontendConflict[] {
    const conflicts: FrontendConflict[] = []
    for (const entry of this.#touched) {
      conflicts.push(...entry.takeConflicts())
      // One that was forgotten may have a successor of the same name.
      if (entry.isForgettable && this.#entries.get(entry.name) === entry) this.#entries.delete(entry.name)
    }
    this.#touched.clear()
    return conflicts
  }

  /** Who has the frontend; undefined: no service port. */
  ownerOf(frontend: Pick<DesiredFrontend, 'dispatch' | 'frontend'>): ServicePortKey | undefined {
    return this.#entries.get(nameOf(frontend))?.winner?.route
  }

  /** What every owner wants now. Walks all. */
  *owned(): Iterable<DesiredFrontend> {
    for (const { winner } of this.#entries.values()) yield* winner?.desired ?? []
  }

  #change(name: string, change: (entry: Entry) => void, changes: FrontendChange[]): void {
    let entry = this.#entries.get(name)
    if (entry === undefined)
      this.#entries.set(name, (entry = new Entry(name, { isShared: name.startsWith(healthCheckPrefix) })))
    const before = entry.winner
    change(entry)
    this.#touched.add(entry)
    const after = entry.winner
    if (before !== after) changes.push({ before: before?.desired ?? [], after: after?.desired ?? [] })
  }
}

const healthCheckPrefix = 'health check '

/** Health check ports are opened, not dispatched, so they are no rivals of frontends of the same number. */
function nameOf({ dispatch, frontend }: Pick<DesiredFrontend, 'dispatch' | 'frontend'>): string {
  const isHealthCheck = dispatch.table === 'filter' && dispatch.chain === 'KUBE-NODEPORTS'
  return `${isHealthCheck ? healthCheckPrefix : ''}${describeFrontend(frontend)}`
}

/** `tcp 10.96.0.1:80`, `udp [fd00::1]:53`, `tcp node port 30080`. */
export function describeFrontend({ address, protocol, port }: Frontend): string {
  if (address === undefined) return `${protocol} node port ${port}`
  return `${protocol} ${address.includes(':') ? `[${address}]` : address}:${port}`
}
