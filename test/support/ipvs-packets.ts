// Follows the first packet of a connection to a Service through the model kernel's rules, sets, virtual servers and local addresses,
// after each operation that changes them. IPv4 and TCP only.
import { cidrContains, type IpAddress, readAddress } from '../../src/address.js'
import { describeIpvsOp } from '../../src/kernel/ipvs/servers.js'
import { describeRouteOp } from '../../src/kernel/route/routes.js'
import { describeIpsetEntry, describeIpsetOp } from '../../src/kernel/ipset/ipset.js'
import {
  type IpsetEntry,
  type IpsetOp,
  type IpvsOp,
  NfElements,
  type RouteOp,
  type VirtualServerKey,
  type XtRule,
  XtState,
  type XtTableName,
} from '../../src/kernel/index.js'
import { type XtSet } from '../../src/kernel/testing.js'
import { natGuardSet } from '../../src/layers/vips/index.js'
import type { ModelKernel } from '../model/index.js'

export interface Packet {
  /** undefined: a process of the node sends it. */
  readonly inInterface: string | undefined
  readonly source: IpAddress
  readonly destination: IpAddress
  readonly port: number
}

/** `refused`: by a rule, or because IPVS has no real server. `unbound`: the node forwards the packet, as the address is not local. */
export type Fate = 'refused' | 'dropped' | 'unbound' | Served

export interface Served {
  readonly by: IpAddress
  /** The packet leaves with the node's address, so the answer returns through the node. */
  readonly isMasqueraded: boolean
}

interface Flow {
  readonly mark: number
  readonly isMasqueraded: boolean
  /** The destination after DNAT. */
  readonly translated?: { readonly address: IpAddress; readonly port: number }
}

interface Ending {
  readonly flow: Flow
  readonly verdict: 'accept' | 'drop' | 'reject' | 'return'
}

interface Place {
  readonly table: XtTableName
  readonly chain: string
}

const tables: readonly XtTableName[] = ['mangle', 'nat', 'filter']

/** Follows every operation of one model kernel. */
export class IpvsPackets {
  readonly #kernel: ModelKernel
  readonly #nodeAddresses: ReadonlySet<IpAddress>
  readonly #sets = new Map<string, Map<string, IpsetEntry>>()
  /** Real servers with their weights, by virtual server. */
  readonly #servers = new Map<string, Map<IpAddress, number>>()
  /** The routes and interface addresses that make each address local. */
  readonly #bound = new Map<IpAddress, Set<string>>()

  /** Calls `onChange` after each operation, with its description. */
  constructor(
    kernel: ModelKernel,
    nodeAddresses: readonly IpAddress[],
    onChange: (operation: string) => void,
  ) {
    this.#kernel = kernel
    this.#nodeAddresses = new Set(nodeAddresses)
    const followed = <Op extends { readonly op: string }>(
      enter: (op: Op) => void,
      describe: (op: Op) => string,
    ) => ({
      fault: (op: Op): undefined => {
        enter(op)
        onChange(`${op.op} ${describe(op)}`)
      },
    })
    kernel.ipset.batches.plan = followed((op: IpsetOp) => this.#enterSet(op), describeIpsetOp)
    kernel.ipvs.batches.plan = followed((op: IpvsOp) => this.#enterServer(op), describeIpvsOp)
    kernel.routes.batches.plan = followed((op: RouteOp) => this.#enterRoute(op), describeRouteOp)
    kernel.nftables.namespace.listeners.add(() => onChange('a transaction of nf_tables'))
    for (const name of tables) {
      const table = kernel.xtNamespace.table('ipv4', name)
      const replace = table.replace.bind(table)
      table.replace = (chains) => {
        replace(chains)
        onChange(`write table ${name}`)
      }
    }
  }

  /** All possible fates of the packet. */
  fates(packet: Packet): readonly Fate[] {
    const start: Flow = { mark: 0, isMasqueraded: false }
    const isLocal = packet.inInterface === undefined
    const hooks = isLocal
      ? ['mangle OUTPUT', 'nat OUTPUT', 'filter OUTPUT']
      : ['mangle PREROUTING', 'nat PREROUTING']
    // The guard of VIPs translates the connection before (docs/adr/0027): the kernel passes over table nat.
    const seen = this.#isGuarded(packet.destination) ? hooks.filter((hook) => !hook.startsWith('nat')) : hooks
    const routed = this.#through(packet, seen, [accepted(start)])
    return routed.flatMap(({ flow, verdict }) => {
      if (verdict !== 'accept') return [fateOf(verdict)]
      if (flow.translated !== undefined) return this.#leave(packet, flow, flow.translated.address)
      if (!this.#isLocal(packet.destination)) return ['unbound' as const]
      const arrived = isLocal
        ? [accepted(flow)]
        : this.#through(packet, ['mangle INPUT', 'filter INPUT'], [accepted(flow)])
      return arrived.flatMap((ending) =>
        ending.verdict === 'accept' ? this.#balance(packet, ending.flow) : [fateOf(ending.verdict)],
      )
    })
  }

  #isGuarded(address: IpAddress): boolean {
    const set = natGuardSet('ipv4', 'viaduct-ipvs')
    const table = this.#kernel.nftables.namespace.tables.ipv4.get(set.table)
    const elements = new NfElements(set)
    for (const element of table?.sets.get(set.set)?.elements.values() ?? []) element.addTo(elements)
    const { bytes, stride, length } = elements
    return Array.from({ length }, (_, index) => readAddress(bytes, index * stride, 'ipv4')).includes(address)
  }

  #balance(packet: Packet, flow: Flow): readonly Fate[] {
    const reals =
      (flow.mark === 0 ? undefined : this.#servers.get(`mark ${flow.mark}`)) ??
      this.#servers.get(`${packet.destination} ${packet.port}`)
    const serving = [...(reals ?? [])].filter(([, weight]) => weight > 0)
    return serving.length === 0
      ? ['refused']
      : serving.flatMap(([address]) => this.#leave(packet, flow, address))
  }

  #leave(packet: Packet, flow: Flow, by: IpAddress): readonly Fate[] {
    const endings = this.#through(packet, ['nat POSTROUTING'], [accepted(flow)])
    return endings.map((ending) => ({ by, isMasqueraded: ending.flow.isMasqueraded }))
  }

  #through(packet: Packet, hooks: readonly string[], endings: readonly Ending[]): readonly Ending[] {
    return hooks.reduce<readonly Ending[]>((before, hook) => {
      const [table = '', chain = ''] = hook.split(' ')
      const name = tables.find((known) => known === table) ?? 'nat'
      return before.flatMap((ending) =>
        ending.verdict === 'accept'
          ? this.#chain(packet, { table: name, chain }, ending.flow).map(({ flow, verdict }): Ending => ({
              flow,
              verdict: verdict === 'return' ? 'accept' : verdict,
            }))
          : [ending],
      )
    }, endings)
  }

  #chain(packet: Packet, place: Place, before: Flow, first = 0): readonly Ending[] {
    const { table, chain } = place
    const rules = this.#kernel.xtNamespace.table('ipv4', table).chains.get(chain) ?? []
    let flow = before
    const endings: Ending[] = []
    for (const [index, rule] of rules.entries()) {
      if (index < first || !this.#matches(packet, rule, flow)) continue
      const { target } = rule
      // A rule with a probability may match or not.
      const isCertain = (rule.probability ?? 1) === 1
      if (target.kind === 'jump' || target.kind === 'goto') {
        for (const ending of this.#chain(packet, { table, chain: target.chain }, flow)) {
          const goesOn = target.kind === 'jump' && ending.verdict === 'return'
          endings.push(...(goesOn ? this.#chain(packet, place, ending.flow, index + 1) : [ending]))
        }
        if (isCertain) return endings
      } else if (target.kind === 'mark') {
        flow = { ...flow, mark: ((flow.mark & ~target.mask) ^ target.value) >>> 0 }
      } else if (target.kind === 'map-mark') {
        const { value = 0, mask = 0 } = this.#find(packet, target.set)?.mark ?? {}
        flow = { ...flow, mark: ((flow.mark & ~mask) ^ value) >>> 0 }
      } else {
        endings.push(endingOf(rule, flow))
        if (isCertain) return endings
      }
    }
    return [...endings, { flow, verdict: 'return' }]
  }

  #matches(packet: Packet, rule: XtRule, flow: Flow): boolean {
    const { source, destination, inInterface, mark, state, addressType, destinationPorts, protocol } = rule
    const { address: to, port } = flow.translated ?? { address: packet.destination, port: packet.port }
    const bits = XtState.new | (flow.translated === undefined ? 0 : XtState.dnat)
    const typed = addressType?.of === 'source' ? packet.source : to
    return (
      isIn(source, packet.source) &&
      isIn(destination, to) &&
      (inInterface === undefined ||
        (inInterface.name === packet.inInterface) !== (inInterface.isInverted ?? false)) &&
      (protocol === undefined || protocol === 'tcp') &&
      (destinationPorts === undefined || (destinationPorts[0] <= port && port <= destinationPorts[1])) &&
      (mark === undefined || ((flow.mark & mark.mask) >>> 0 === mark.value) !== (mark.isInverted ?? false)) &&
      (state === undefined || ((bits & state.bits) !== 0) !== (state.isInverted ?? false)) &&
      (addressType === undefined || this.#isLocal(typed) !== (addressType.isInverted ?? false)) &&
      (rule.isSourceDestination !== true || packet.source === to) &&
      (rule.set === undefined ||
        (this.#find(packet, rule.set) !== undefined) !== (rule.set.isInverted ?? false))
    )
  }

  #find({ source, destination, port }: Packet, { name, directions }: XtSet): IpsetEntry | undefined {
    const entries = this.#sets.get(name)
    const isPort = directions.length === 1 && !name.endsWith('IP') && !name.endsWith('IPS')
    if (isPort) return entries?.get(`${port}`)
    if (directions.length === 1) return entries?.get(directions[0] === 'src' ? source : destination)
    const first = directions[0] === 'src' ? source : destination
    if (directions.length === 2) return entries?.get(`${first},tcp:${port}`)
    return [...(entries?.values() ?? [])].find(
      ({ address, port: own, secondAddress, prefixLength = 32 }) =>
        address === first &&
        own === port &&
        secondAddress !== undefined &&
        cidrContains({ address: secondAddress, prefixLength, family: 'ipv4' }, source),
    )
  }

  #isLocal(address: IpAddress): boolean {
    return this.#nodeAddresses.has(address) || (this.#bound.get(address)?.size ?? 0) > 0
  }

  #enterSet(op: IpsetOp): void {
    switch (op.op) {
      case 'create-set':
        if (!this.#sets.has(op.set.name)) this.#sets.set(op.set.name, new Map())
        return
      case 'add-entry':
        this.#sets.get(op.set.name)?.set(describeIpsetEntry(op.entry), op.entry)
        return
      case 'delete-entry':
        this.#sets.get(op.set.name)?.delete(describeIpsetEntry(op.entry))
        return
      case 'destroy-set':
        this.#sets.delete(op.name)
        return
      default:
        throw new Error(`no test needs ${op.op}`)
    }
  }

  #enterServer(op: IpvsOp): void {
    const id = serverId('key' in op.server ? op.server.key : op.server)
    switch (op.op) {
      case 'add-virtual-server':
        this.#servers.set(id, new Map())
        return
      case 'remove-virtual-server':
        this.#servers.delete(id)
        return
      case 'add-real-server':
      case 'set-real-server':
        this.#servers.get(id)?.set(op.real.key.address, op.real.settings.weight)
        return
      case 'remove-real-server':
        this.#servers.get(id)?.delete(op.real.address)
        return
      default:
    }
  }

  #enterRoute(op: RouteOp): void {
    const address = 'route' in op ? op.route.address : op.address.address
    const kind = 'route' in op ? 'route' : 'address'
    const kinds = this.#bound.get(address) ?? new Set()
    this.#bound.set(address, kinds)
    if (op.op === 'remove-route' || op.op === 'remove-address') kinds.delete(kind)
    else kinds.add(kind)
  }
}

function isIn(network: XtRule['source'], address: IpAddress): boolean {
  if (network === undefined) return true
  return cidrContains({ ...network, family: 'ipv4' }, address) !== (network.isInverted ?? false)
}

function serverId(key: VirtualServerKey): string {
  return 'mark' in key ? `mark ${key.mark}` : `${key.address} ${key.port}`
}

function accepted(flow: Flow): Ending {
  return { flow, verdict: 'accept' }
}

/** The result of a target that ends the chain. */
function endingOf({ target }: XtRule, flow: Flow): Ending {
  switch (target.kind) {
    case 'dnat':
      return accepted({ ...flow, translated: { address: target.address, port: target.port } })
    case 'masquerade':
      return accepted({ ...flow, isMasqueraded: true })
    case 'accept':
    case 'drop':
    case 'reject':
    case 'return':
      return { flow, verdict: target.kind }
    default:
      throw new Error(`${target.kind} ends no chain`)
  }
}

function fateOf(verdict: Ending['verdict']): Fate {
  return verdict === 'drop' ? 'dropped' : 'refused'
}
