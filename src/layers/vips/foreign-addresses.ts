// The external addresses of Services that other machines or pods have: they never become local (docs/adr/0028).
import {
  type Cidr,
  cidrContains,
  formatCidr,
  hasAddress,
  type IpAddress,
  type IpFamily,
} from '../../address.js'
import {
  type ExternalAddresses,
  type FamilyContext,
  type FamilyParts,
  logFamily,
} from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import { serviceReference } from '../../event.js'
import { AddressCursor, type Routes } from '../../kernel/index.js'
import type { Problem } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import { apiServerService } from '../../node/index.js'
import { holderReasons, type Route } from '../../routing/index.js'

type ForeignAddressesOptions = Pick<
  FamilyContext & FamilyParts,
  'family' | 'syncPeriodMs' | 'node' | 'clock' | 'warnings' | 'questions'
> & {
  readonly config: { readonly clusterCIDR: readonly Cidr[] }
  readonly routes: Pick<Routes, 'dumpNextHops'>
}

interface Exposed extends ExternalAddresses {
  readonly key: ServicePortKey
}

interface Claim {
  readonly port: Exposed
  /** By address: who has it. */
  readonly holders: ReadonlyMap<IpAddress, string>
}

const noHolders: ReadonlyMap<IpAddress, string> = new Map()

/** Time until routing tables that could not be read are read again. */
const retryMs = 1000

/**
 * Leaves such addresses out of the routes of one family, and reports them. What it knows: the API server's addresses, the other Nodes,
 * the networks of pods, and the next hops of this node's routing tables.
 */
export class ForeignAddresses {
  readonly #options: ForeignAddressesOptions
  /** The service ports with external addresses. */
  readonly #claims = new Map<ServicePortKey, Claim>()
  readonly #reported = new Map<string, Set<ServicePortKey>>()
  #hops: ReadonlySet<IpAddress> = new Set()
  #machine: ReadonlySet<IpAddress> = new Set()
  #readMs = -Infinity
  #isStale = false

  constructor(options: ForeignAddressesOptions) {
    this.#options = options
  }

  /** Takes in this machine's addresses, when they changed: they belong to no other machine. */
  setMachine(addresses: readonly IpAddress[]): void {
    this.#machine = new Set(addresses)
    this.#isStale = true
  }

  /** Takes in the route of a service port, and returns it without the addresses that others have. */
  admit(decided: Route): Route {
    const { key, service, externalIPs, loadBalancerIPs } = decided
    const former = this.#claims.get(key)
    if (externalIPs.length + loadBalancerIPs.length === 0) {
      if (former !== undefined) this.forget(key)
      return decided
    }
    const port = { key, service, externalIPs, loadBalancerIPs }
    const holders = this.#holdersOf(port)
    this.#claims.set(key, { port, holders })
    this.#report(port, former?.holders ?? noHolders, holders)
    return without(decided, holders)
  }

  /** As `admit`, without a note of the service port. */
  view(decided: Route): Route {
    return without(decided, this.#holdersOf(decided))
  }

  /** The other holder of this address of the service port, as now known; undefined: there is none, or it is no external address of the port. */
  holderOf(port: ExternalAddresses, address: IpAddress): string | undefined {
    const { service, externalIPs, loadBalancerIPs } = port
    const isOfLoadBalancer = hasAddress(loadBalancerIPs, address)
    if (service === apiServerService || !(isOfLoadBalancer || hasAddress(externalIPs, address)))
      return undefined
    return this.#holderOf(address, isOfLoadBalancer)
  }

  /** The service port was removed. */
  forget(key: ServicePortKey): void {
    const claim = this.#claims.get(key)
    if (claim === undefined) return
    this.#claims.delete(key)
    this.#report(claim.port, claim.holders, noHolders)
  }

  /** Facts about other machines, or about the networks of pods, changed: `renew` may find another answer. */
  note(): void {
    this.#isStale = true
  }

  /** `renew` may find another answer. */
  get isRenewDue(): boolean {
    return this.#claims.size > 0 && (this.#isStale || this.#options.clock.now() >= this.#readMs)
  }

  /** Reads the routing tables if they are due. Returns the service ports whose answer changed. */
  async renew(): Promise<readonly ServicePortKey[]> {
    if (!this.isRenewDue) return []
    this.#isStale = false
    if (this.#options.clock.now() >= this.#readMs) await this.#readHops()
    const changed: ServicePortKey[] = []
    for (const [key, { port, holders }] of this.#claims)
      if (textOf(this.#holdersOf(port)) !== textOf(holders)) changed.push(key)
    return changed
  }

  /** A refusal is reported; the former answer stays. */
  async #readHops(): Promise<void> {
    const { family, clock, questions, routes, syncPeriodMs } = this.#options
    const question = { key: 'read next hops', subject: 'routing tables' }
    const dumped = await questions.ask(question, async () => await routes.dumpNextHops(family))
    const isRefused = dumped instanceof KernelError
    this.#readMs = clock.now() + (isRefused ? retryMs : syncPeriodMs)
    if (isRefused) return
    const cursor = new AddressCursor(dumped)
    this.#hops = new Set(Array.from({ length: cursor.length }, (_, index) => cursor.address(index)))
  }

  #holdersOf({ service, externalIPs, loadBalancerIPs }: ExternalAddresses): ReadonlyMap<IpAddress, string> {
    if (service === apiServerService) return noHolders
    let found: Map<IpAddress, string> | undefined
    for (const address of new Set([...externalIPs, ...loadBalancerIPs])) {
      const holder = this.#holderOf(address, hasAddress(loadBalancerIPs, address))
      if (holder !== undefined) (found ??= new Map()).set(address, holder)
    }
    return found ?? noHolders
  }

  /**
   * The holder of the address; undefined: no other holder is known. The controller of a load balancer may take its addresses from clusterCIDR: on
   * some clouds that is the network of all machines.
   */
  #holderOf(address: IpAddress, isOfLoadBalancer: boolean): string | undefined {
    if (this.#machine.has(address)) return undefined
    const { config, node } = this.#options
    const { places, otherNodes, podCIDRs } = node.facts
    if (places.apiServer.some((place) => place.address === address)) return 'the API server'
    const name = otherNodes.nodeOf(address)
    if (name !== undefined) return `Node ${name}`
    if (this.#hops.has(address)) return "a next hop or a host route of this node's routing tables"
    const contains = (cidr: Cidr): boolean => cidrContains(cidr, address)
    const pods =
      podCIDRs.find(contains) ??
      otherNodes.podNetworkOf(address) ??
      (isOfLoadBalancer ? undefined : config.clusterCIDR.find(contains))
    return pods === undefined ? undefined : `the pod network ${formatCidr(pods)}`
  }

  /** One problem for all ports of a Service with the address. */
  #report(
    { key, service }: Exposed,
    before: ReadonlyMap<IpAddress, string>,
    after: ReadonlyMap<IpAddress, string>,
  ): void {
    const { family, warnings } = this.#options
    for (const address of new Set([...before.keys(), ...after.keys()])) {
      const name = `foreign ${family} ${address} of ${service}`
      const ports = this.#reported.get(name) ?? new Set()
      const holder = after.get(address)
      if (holder === undefined) ports.delete(key)
      else {
        this.#reported.set(name, ports.add(key))
        warnings.report(name, problemOf({ family, service, address, holder }))
      }
      if (ports.size > 0) continue
      this.#reported.delete(name)
      if (this.#claims.has(key)) warnings.report(name, undefined)
      else warnings.forget(name)
    }
  }
}

function without(decided: Route, holders: ReadonlyMap<IpAddress, string>): Route {
  if (holders.size === 0) return decided
  const isKept = (address: IpAddress): boolean => !holders.has(address)
  return {
    ...decided,
    externalIPs: decided.externalIPs.filter(isKept),
    loadBalancerIPs: decided.loadBalancerIPs.filter(isKept),
  }
}

function textOf(holders: ReadonlyMap<IpAddress, string>): string {
  return [...holders].flat().join()
}

function problemOf(left: {
  readonly family: IpFamily
  readonly service: string
  readonly address: IpAddress
  readonly holder: string
}): Problem {
  const { family, service, address, holder } = left
  const text = `Service ${service}: this mode does not make ${address} local, as it belongs to ${holder}`
  const [namespace = '', name = ''] = service.split('/')
  return {
    text,
    fields: {
      service,
      address,
      owner: holder,
      reason: holderReasons.elsewhere,
      ipFamily: logFamily(family),
    },
    event: {
      type: 'Warning',
      reason: 'AddressNotServed',
      action: 'Sync',
      regarding: serviceReference(namespace, name),
      note: text,
    },
  }
}
