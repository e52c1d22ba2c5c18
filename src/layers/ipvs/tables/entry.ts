import { noRealServers, type RealServerList, type VirtualServerKey } from '../../../kernel/index.js'
import type { TrackedObject } from '../../objects/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { DesiredVirtualServer, ServerState } from '../compile/desired.js'
import { forbiddingSets } from '../compile/sets.js'
import { type PackedId, packedIdOf } from './packed.js'

/** The service port that wants a virtual server, and its Service. */
interface Holder {
  readonly route: ServicePortKey
  /** `namespace/name`. */
  readonly service: string
}

/** Identity of a virtual server in a Map, from its key's text; it is never shown. */
export type ServerId = string & { readonly brand: 'ServerId' }

export function serverIdOf(key: VirtualServerKey): ServerId {
  const text = 'mark' in key ? `mark ${key.mark}` : `${key.address} ${key.port} ${key.protocol}`
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a brand has no other origin
  return text as ServerId
}

/**
 * Whether unwanted real servers of this virtual server drain: they get weight 0 and keep their connections. For UDP, only those in
 * `flowBackends` drain. All others are removed at once.
 */
export type DrainPolicy = (
  server: Pick<DesiredVirtualServer, 'protocol' | 'settings' | 'realServers'>,
) => boolean

/** The properties of a virtual server that the kernel's state does not show, until a route of this run claims it. */
const nothingElse = {
  protocol: undefined,
  flowBackends: noRealServers,
  bindAddress: true,
  entries: [],
} as const

/** One virtual server: the route that wants it, and the state that the kernel acknowledged. */
export class Entry implements TrackedObject<ServerId, ServerState | undefined> {
  readonly key: VirtualServerKey
  readonly id: ServerId
  /** The last known state in the kernel; undefined: no such virtual server. */
  acknowledged: ServerState | undefined
  /** The acknowledged state may be wrong: no operation is planned before the next reconcile. */
  isStale = false
  /** The kernel answered that another program has a virtual server of this mark. Reset by the next reconcile. */
  isForeign = false
  /** Whether `VipTable` has it as a holder of its VIP. */
  holdsAddress = false
  isCounted = false
  seenIn = 0
  readonly #drains: DrainPolicy
  /** State in the kernel at the start that no route has claimed; kept until all objects are known. */
  #leftover: ServerState | undefined
  /** Acknowledged real servers that drain, already with the weight 0 that they get. */
  #draining = noRealServers
  #wanted: DesiredVirtualServer | undefined
  /** `bindAddress` of the last claim, which applies until the removal. */
  #bindsAddress = true
  /** As the last claim wants it; undefined: no route does. */
  #desired: DesiredVirtualServer | undefined
  #route: ServicePortKey | undefined
  /** The Service of the last claim; empty: none of this run. */
  #service = ''
  #packedId: PackedId | undefined

  constructor(key: VirtualServerKey, id: ServerId, drains: DrainPolicy) {
    this.key = key
    this.id = id
    this.#drains = drains
  }

  /** Identity in a dump; made at the first use. */
  get packedId(): PackedId {
    return (this.#packedId ??= packedIdOf(this.key))
  }

  /** The desired state of the owner, with leftovers and draining real servers; undefined: the virtual server is unwanted. */
  get wanted(): DesiredVirtualServer | undefined {
    return this.#wanted
  }

  get isLeftover(): boolean {
    return this.#leftover !== undefined
  }

  /** Real servers that only keep their connections. They have weight 0, or get it with the next batch. */
  get draining(): RealServerList {
    return this.#draining
  }

  get isDraining(): boolean {
    return this.#draining !== noRealServers
  }

  /** Whether the kernel has it, and some desired real server gets new connections. */
  get isServing(): boolean {
    const { acknowledged, isStale, wanted } = this
    return !isStale && acknowledged !== undefined && wanted?.realServers.isServing === true
  }

  /** The Service that messages name. */
  get service(): string {
    return this.#service
  }

  /** The route of the last claim; undefined: no route of this run wants it. */
  get route(): ServicePortKey | undefined {
    return this.#route
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== undefined
  }

  get isUnused(): boolean {
    return this.#wanted === undefined && this.acknowledged === undefined
  }

  /** Whether its address must be local. It must until the removal is confirmed, as the binding marks the virtual server as ours. */
  get needsAddress(): boolean {
    return this.acknowledged !== undefined && this.#bindsAddress && !('mark' in this.key)
  }

  /** The route wants it, in place of any former one. */
  claim({ route, service }: Holder, desired: DesiredVirtualServer): void {
    this.#route = route
    this.#service = service
    this.#desired = desired
    this.#settle(this.#leftover)
  }

  /** Its route is known, and does not want it any more. */
  release(): void {
    this.#route = undefined
    this.#desired = undefined
    this.#settle(undefined)
  }

  /** The kernel's state stays desired until `dropLeftover`; a claim replaces the part that it covers. */
  keepLeftover(state: ServerState): void {
    this.#settle(state)
  }

  dropLeftover(): void {
    this.#settle(undefined)
  }

  /** A reading replaced the acknowledged state. */
  resettle(): void {
    this.#settle(this.#leftover)
  }

  /** Only these real servers still drain: the others are unwanted now. */
  keepDraining(still: RealServerList): void {
    this.#draining = still
    this.#want()
  }

  #settle(leftover: ServerState | undefined): void {
    const desired = this.#desired
    this.#leftover = leftover
    this.#draining = noRealServers
    if (desired !== undefined) this.#keep(desired, this.#drains(desired))
    this.#want()
  }

  /** Keeps the real servers of the leftover that no route claims. `drains`: the others that the kernel has drain. */
  #keep(desired: DesiredVirtualServer, drains: boolean): void {
    const { realServers, protocol, flowBackends } = desired
    const kept = this.#leftover?.realServers.minus(realServers) ?? noRealServers
    this.#leftover =
      this.#leftover === undefined || kept === noRealServers
        ? undefined
        : { ...this.#leftover, realServers: kept }
    if (!drains || this.acknowledged === undefined) return
    const unwanted = this.acknowledged.realServers.minus(realServers).minus(kept)
    this.#draining = (protocol === 'udp' ? unwanted.within(flowBackends) : unwanted).withoutWeight()
  }

  #want(): void {
    const desired = this.#desired
    if (desired !== undefined) this.#bindsAddress = desired.bindAddress
    const kept = this.#leftover?.realServers ?? noRealServers
    if (desired === undefined)
      this.#wanted = this.#leftover && { key: this.key, ...this.#leftover, ...nothingElse }
    else if (kept === noRealServers && !this.isDraining) this.#wanted = desired
    else {
      const realServers = desired.realServers.plus(kept).plus(this.#draining)
      // The kernel may already have endpoints that are not known yet: no client is refused because an endpoint seems to be missing.
      const entries =
        kept === noRealServers
          ? desired.entries
          : desired.entries.filter(({ set }) => !forbiddingSets.has(set))
      this.#wanted = { ...desired, realServers, entries }
    }
  }
}
