// Walks compiled tables like the kernel for one packet. Follows both results of each random match, and returns every outcome with its
// probability. It takes microseconds and needs no kernel; test/traffic/ compares it with real packets.
import { cidrContains, familyOf, parseCidr, type IpAddress } from '../../src/address.js'
import { BugError } from '../../src/errors.js'
import {
  hostPrefixLength,
  type Protocol,
  type XtHook,
  type XtNetwork,
  type XtRule,
  XtState,
} from '../../src/kernel/index.js'
import type { IptablesTable } from '../../src/layers/xtables/index.js'

export interface ModelTable {
  readonly chains: ReadonlyMap<string, readonly XtRule[]>
  readonly hooks: ReadonlyMap<XtHook, readonly XtRule[]>
}
export type ModelTables = Readonly<Record<IptablesTable, ModelTable>>

/** The entries of each list of the `recent` match, with their age in seconds. */
export type RecentLists = ReadonlyMap<string, ReadonlyMap<IpAddress, number>>

export interface ModelNode {
  /** Local addresses, without those of loopback. */
  readonly addresses: readonly IpAddress[]
  /** The policy of FORWARD in table filter. Default: accept. */
  readonly forwardPolicy?: 'accept' | 'drop'
  readonly recent?: RecentLists
}

export interface ModelPacket {
  /** The interface that received the packet; undefined: a process on the node sends it. */
  readonly inInterface: string | undefined
  readonly source: IpAddress
  readonly destination: IpAddress
  readonly protocol: Protocol
  readonly sourcePort?: number
  readonly destinationPort: number
  /** Conntrack state. Default: new. Only new packets pass nat. */
  readonly state?: 'new' | 'established' | 'related' | 'invalid'
  /** The destination of its connection was translated. */
  readonly isTranslated?: boolean
  readonly mark?: number
}

/** One possible outcome for the packet. */
export interface Outcome {
  readonly verdict: 'accept' | 'reject' | 'drop'
  /** Destination after DNAT. */
  readonly address: IpAddress
  readonly port: number
  readonly isTranslated: boolean
  /** The packet leaves with this node's address. */
  readonly isMasqueraded: boolean
  readonly mark: number
  /** Lists of the `recent` match to which its source was added. */
  readonly remembered: readonly string[]
  readonly probability: number
  /** Largest number of rules that were compared with the packet. */
  readonly rules: number
}

type Flow = Omit<Outcome, 'verdict'>
interface Ending {
  readonly flow: Flow
  /** `return`: the packet reached the end of the chain. */
  readonly verdict: Outcome['verdict'] | 'return'
}

/** All possible outcomes. Their probabilities add up to 1. Throws BugError for a rule that the model does not support. */
export function walk(tables: ModelTables, node: ModelNode, packet: ModelPacket): readonly Outcome[] {
  return merge(new Walker(tables, node, packet).walk())
}

const stateBits = {
  new: XtState.new,
  established: XtState.established,
  related: XtState.related,
  invalid: XtState.invalid,
} as const

class Walker {
  readonly #tables: ModelTables
  readonly #node: ModelNode
  readonly #packet: ModelPacket

  constructor(tables: ModelTables, node: ModelNode, packet: ModelPacket) {
    this.#tables = tables
    this.#node = node
    this.#packet = packet
  }

  walk(): readonly Outcome[] {
    const { destination, destinationPort, inInterface, isTranslated = false, mark = 0 } = this.#packet
    const start: Flow = {
      address: destination,
      port: destinationPort,
      isTranslated,
      isMasqueraded: false,
      mark,
      remembered: [],
      probability: 1,
      rules: 0,
    }
    const isLocal = inInterface === undefined
    return this.#nat(isLocal ? 'OUTPUT' : 'PREROUTING', [{ flow: start, verdict: 'accept' }]).flatMap(
      (ending) => {
        const isToNode = this.#isLocal(ending.flow.address)
        let endings: readonly Ending[] = [ending]
        if (isLocal) endings = this.#filter('OUTPUT', endings)
        else if (!isToNode) endings = this.#filter('FORWARD', endings)
        if (isLocal || !isToNode) endings = this.#nat('POSTROUTING', endings)
        if (isToNode) endings = this.#filter('INPUT', endings)
        return endings.map(({ flow, verdict }) => ({
          ...flow,
          verdict: verdict === 'return' ? 'accept' : verdict,
        }))
      },
    )
  }

  #nat(hook: XtHook, endings: readonly Ending[]): readonly Ending[] {
    const isNew = (this.#packet.state ?? 'new') === 'new'
    return isNew ? this.#hook('nat', hook, endings) : endings
  }

  #filter(hook: XtHook, endings: readonly Ending[]): readonly Ending[] {
    return this.#hook('filter', hook, endings)
  }

  /** Continues with the packets that were accepted so far. */
  #hook(table: IptablesTable, hook: XtHook, endings: readonly Ending[]): readonly Ending[] {
    const policy =
      hook === 'FORWARD' && table === 'filter' ? (this.#node.forwardPolicy ?? 'accept') : 'accept'
    const rules = this.#tables[table].hooks.get(hook) ?? []
    return endings.flatMap((ending) => {
      if (ending.verdict !== 'accept') return [ending]
      const passed = this.#chain({ table, hook }, rules, ending.flow)
      return passed.map(({ flow, verdict }) => ({ flow, verdict: verdict === 'return' ? policy : verdict }))
    })
  }

  #chain(place: Place, rules: readonly XtRule[], before: Flow, first = 0): readonly Ending[] {
    const endings: Ending[] = []
    let probability = before.probability
    for (let i = first; i < rules.length; i++) {
      const rule = rules[i]
      if (rule === undefined) break
      if (!this.#matches(place, rule, before)) continue
      const chance = rule.probability ?? 1
      const looked = before.rules + i + 1 - first
      const taken = { ...before, rules: looked, probability: probability * chance }
      for (const ending of this.#target(place, rule, taken)) {
        if (ending.verdict === 'continue') endings.push(...this.#chain(place, rules, ending.flow, i + 1))
        else endings.push({ flow: ending.flow, verdict: ending.verdict })
      }
      if (chance === 1) return endings
      probability *= 1 - chance
    }
    const flow = { ...before, rules: before.rules + rules.length - first, probability }
    return [...endings, { flow, verdict: 'return' }]
  }

  #target(place: Place, rule: XtRule, before: Flow): readonly Step[] {
    const { target } = rule
    const list = rule.recent?.action === 'set' ? [rule.recent.list] : []
    const flow = { ...before, remembered: [...before.remembered, ...list] }
    switch (target.kind) {
      case 'accept':
      case 'drop':
      case 'reject':
      case 'return':
        return [{ flow, verdict: target.kind }]
      case 'mark':
        return [
          { flow: { ...flow, mark: ((flow.mark & ~target.mask) ^ target.value) >>> 0 }, verdict: 'continue' },
        ]
      case 'dnat': {
        const { address, port } = target
        return [{ flow: { ...flow, address, port, isTranslated: true }, verdict: 'accept' }]
      }
      case 'masquerade':
        return [{ flow: { ...flow, isMasqueraded: true }, verdict: 'accept' }]
      case 'map-mark':
        throw new BugError('no table of iptables mode maps a mark')
      case 'goto':
        return this.#chain(place, this.#rulesOf(place, target.chain), flow)
      case 'jump':
        return this.#chain(place, this.#rulesOf(place, target.chain), flow).map((ending) =>
          ending.verdict === 'return' ? { flow: ending.flow, verdict: 'continue' } : ending,
        )
    }
  }

  #rulesOf({ table }: Place, chain: string): readonly XtRule[] {
    const rules = this.#tables[table].chains.get(chain)
    if (rules === undefined) throw new BugError(`table ${table} has no chain ${chain}`)
    return rules
  }

  #matches(place: Place, rule: XtRule, flow: Flow): boolean {
    if (rule.set !== undefined || rule.outInterface !== undefined) {
      throw new BugError('the packet model knows no sets and no output interfaces')
    }
    return this.#matchesPacket(place, rule, flow) && this.#matchesConnection(rule, flow)
  }

  #matchesPacket(place: Place, rule: XtRule, flow: Flow): boolean {
    const { source, protocol, sourcePort = 40000 } = this.#packet
    const inInterface = hooksWithInput.includes(place.hook) ? this.#packet.inInterface : undefined
    return (
      isIn(rule.source, source) &&
      isIn(rule.destination, flow.address) &&
      (rule.inInterface === undefined ||
        isInterface(rule.inInterface.name, inInterface) !== (rule.inInterface.isInverted ?? false)) &&
      (rule.protocol === undefined || rule.protocol === protocol) &&
      isBetween(rule.sourcePorts, sourcePort) &&
      isBetween(rule.destinationPorts, flow.port)
    )
  }

  #matchesConnection(rule: XtRule, flow: Flow): boolean {
    const { source, state = 'new' } = this.#packet
    const { mark, addressType, recent } = rule
    const bits = stateBits[state] | (flow.isTranslated ? XtState.dnat : 0)
    const address = addressType?.of === 'source' ? source : flow.address
    const age = this.#node.recent?.get(recent?.list ?? '')?.get(source)
    const isRecent = age !== undefined && age <= (recent?.seconds ?? Infinity)
    return (
      (mark === undefined || ((flow.mark & mark.mask) >>> 0 === mark.value) !== (mark.isInverted ?? false)) &&
      (rule.state === undefined || ((bits & rule.state.bits) !== 0) !== (rule.state.isInverted ?? false)) &&
      (addressType === undefined || this.#isLocal(address) !== (addressType.isInverted ?? false)) &&
      (rule.isSourceDestination !== true || source === flow.address) &&
      (recent?.action !== 'check' || isRecent)
    )
  }

  #isLocal(address: IpAddress): boolean {
    return this.#node.addresses.includes(address) || loopbacks.some((cidr) => cidrContains(cidr, address))
  }
}

interface Place {
  readonly table: IptablesTable
  readonly hook: XtHook
}
interface Step {
  readonly flow: Flow
  readonly verdict: Ending['verdict'] | 'continue'
}

const hooksWithInput: readonly XtHook[] = ['PREROUTING', 'INPUT', 'FORWARD']
const loopbacks = ['127.0.0.0/8', '::1/128']
  .map((text) => parseCidr(text))
  .filter((cidr) => cidr !== undefined)

function isIn(network: XtNetwork | undefined, address: IpAddress): boolean {
  if (network === undefined) return true
  const { address: first, prefixLength, isInverted = false } = network
  const family = familyOf(first)
  const isHost = prefixLength === hostPrefixLength(family)
  const isInside = isHost
    ? first === address
    : cidrContains({ address: first, prefixLength, family }, address)
  return isInside !== isInverted
}

function isInterface(pattern: string, name: string | undefined): boolean {
  if (name === undefined) return false
  return pattern.endsWith('+') ? name.startsWith(pattern.slice(0, -1)) : name === pattern
}

function isBetween(ports: readonly [number, number] | undefined, port: number): boolean {
  return ports === undefined || (ports[0] <= port && port <= ports[1])
}

/** Merges equal outcomes and adds their probabilities. */
function merge(outcomes: readonly Outcome[]): readonly Outcome[] {
  const merged = new Map<string, Outcome>()
  for (const outcome of outcomes) {
    const { probability, rules, ...rest } = outcome
    const key = JSON.stringify(rest)
    const known = merged.get(key)
    merged.set(key, {
      ...outcome,
      probability: probability + (known?.probability ?? 0),
      rules: Math.max(rules, known?.rules ?? 0),
    })
  }
  return [...merged.values()]
}
