import {
  noRealServers,
  type RealServer,
  type RealServerKey,
  RealServerList,
  type VirtualServerKey,
} from '../../../kernel/index.js'
import type { TrackedObject } from '../../objects/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import { type ClaimConflict, type Claimant, FrontendClaims } from '../../../routing/index.js'
import type { DesiredVirtualServer } from '../compile/desired.js'
import { forbiddingSets } from '../compile/sets.js'
import { type PackedId, packedIdOf } from './packed.js'
import { type ServerState, realServerId } from './diff.js'

/** A conflict between service ports that claim the same virtual server. */
export interface Conflict extends ClaimConflict {
  readonly server: VirtualServerKey
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
  origin: 'allocated',
  flowBackends: [],
  bindAddress: true,
  entries: [],
} as const

const nothingDrains: ReadonlyMap<string, RealServer> = new Map()

/** One virtual server: the routes that claim it, and the state that the kernel acknowledged. */
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
  /** Acknowledged real servers that drain, by identity, already with the weight 0 that they get. */
  #draining = nothingDrains
  #wanted: DesiredVirtualServer | undefined
  /** `bindAddress` of the last owner, which applies until the removal. */
  #bindsAddress = true
  readonly #claims = new FrontendClaims<DesiredVirtualServer>({ isShared: false })
  /** `namespace/name` of the last owner; empty: no Service of this run. */
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

  /** Real servers that only keep their connections, by identity (`realServerId`). */
  get draining(): ReadonlyMap<string, RealServer> {
    return this.#draining
  }

  /** Real servers that get no new connections, as the kernel acknowledged, by identity (`realServerId`). */
  get heldBack(): ReadonlySet<string> {
    return new Set(this.acknowledged?.realServers.heldBack.map(({ key }) => realServerId(key)))
  }

  /** Whether the kernel has it, and some desired real server gets new connections. */
  get isServing(): boolean {
    const { acknowledged, isStale, wanted } = this
    if (isStale || acknowledged === undefined || wanted === undefined) return false
    const { realServers } = wanted
    for (let index = 0; index < realServers.length; index++) if (!realServers.isHeldBack(index)) return true
    return false
  }

  /** The Service that messages name. */
  get service(): string {
    return this.#service
  }

  /** The route of the owner; undefined: no route of this run claims it. */
  get route(): ServicePortKey | undefined {
    return this.#claims.owner?.route
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

  claim(
    route: ServicePortKey,
    { service, createdSeconds }: Pick<Claimant, 'service' | 'createdSeconds'>,
    desired: DesiredVirtualServer,
  ): void {
    this.#claims.put({
      route,
      origin: desired.origin,
      createdSeconds,
      service,
      value: desired,
    })
    this.#service = this.#claims.owner?.service ?? this.#service
    this.#settle(this.#leftover)
  }

  release(route: ServicePortKey): void {
    this.#claims.remove(route)
    this.#service = this.#claims.owner?.service ?? this.#service
    // Its last Service is known, and was removed.
    this.#settle(this.#claims.owner === undefined ? undefined : this.#leftover)
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

  /** The draining of these real servers is over: they are unwanted now. */
  finishDraining(ids: ReadonlySet<string>): void {
    this.#draining = new Map([...this.#draining].filter(([id]) => !ids.has(id)))
    this.#want()
  }

  #settle(leftover: ServerState | undefined): void {
    const desired = this.#claims.owner?.value
    this.#leftover = desired === undefined || isMore(leftover, desired) ? leftover : undefined
    this.#draining = nothingDrains
    if (desired !== undefined && (this.#leftover !== undefined || isMore(this.acknowledged, desired))) {
      const claimed = new Set(Array.from(desired.realServers, ({ key }) => realServerId(key)))
      this.#keep(this.#leftover, claimed)
      if (this.#drains(desired)) this.#drain(desired, claimed)
    }
    this.#want()
  }

  /** Keeps the real servers of a leftover that are not claimed, and adds them to `claimed`. */
  #keep(leftover: ServerState | undefined, claimed: Set<string>): void {
    const kept = [...(leftover?.realServers ?? [])].filter(({ key }) => !claimed.has(realServerId(key)))
    this.#leftover =
      leftover && kept.length > 0 ? { ...leftover, realServers: RealServerList.of(kept) } : undefined
    for (const { key } of kept) claimed.add(realServerId(key))
  }

  /** Lets the real servers drain that the kernel has and no route claims. */
  #drain(desired: DesiredVirtualServer, claimed: ReadonlySet<string>): void {
    const unwanted = [...(this.acknowledged?.realServers ?? [])].filter(
      ({ key }) => !claimed.has(realServerId(key)) && mayKeepConnections(desired, key),
    )
    if (unwanted.length > 0)
      this.#draining = new Map(unwanted.map((real) => [realServerId(real.key), withoutWeight(real)]))
  }

  #want(): void {
    const desired = this.#claims.owner?.value
    if (desired !== undefined) this.#bindsAddress = desired.bindAddress
    const kept = this.#leftover?.realServers ?? noRealServers
    if (desired === undefined)
      this.#wanted = this.#leftover && { key: this.key, ...this.#leftover, ...nothingElse }
    else if (kept.length === 0 && this.#draining.size === 0) this.#wanted = desired
    else {
      const all = [...desired.realServers, ...kept, ...this.#draining.values()]
      // The kernel may already have endpoints that are not known yet: no client is refused because an endpoint seems to be missing.
      const entries =
        kept.length === 0 ? desired.entries : desired.entries.filter(({ set }) => !forbiddingSets.has(set))
      this.#wanted = { ...desired, realServers: RealServerList.of(all), entries }
    }
  }

  /** The claims that lose now, and those that lost at the last call. */
  takeConflicts(): readonly Conflict[] {
    if (!this.#claims.isContested) return []
    return this.#claims.takeConflicts().map((conflict) => ({ server: this.key, ...conflict }))
  }
}

/** Whether the state may have real servers that are not desired. The two are nearly always equal. */
function isMore(state: ServerState | undefined, desired: DesiredVirtualServer): boolean {
  return state !== undefined && !state.realServers.equals(desired.realServers)
}

function mayKeepConnections(
  { protocol, flowBackends }: DesiredVirtualServer,
  { address, port }: RealServerKey,
): boolean {
  if (protocol !== 'udp') return true
  return flowBackends.some((serving) => serving.address === address && serving.port === port)
}

function withoutWeight(real: RealServer): RealServer {
  const { key, settings } = real
  return settings.weight === 0 ? real : { key, settings: { ...settings, weight: 0 } }
}
