// The first packet of a connection at the rules of other programs, as far as they can be evaluated. Pure, apart from reads of chains.
import { cidrContains, type IpAddress } from '../address.js'
import type { FirewallChain, FirewallEntrance, FirewallHook, FirewallRule } from '../kernel/index.js'
import { describeChainPlace, natPriority, XtState } from '../kernel/index.js'

/** A packet at a hook. */
export interface Passage {
  readonly hook: FirewallHook
  /** undefined: not known. */
  readonly source: IpAddress | undefined
  readonly destination: IpAddress
  readonly port: number
  readonly protocol: 'tcp' | 'udp' | 'sctp'
  /** undefined: not known; empty: none. */
  readonly inInterface: string | undefined
  /** Whether the connection has a translated destination; undefined: not known. */
  readonly isTranslated: boolean | undefined
  /** At the hooks prerouting and output: the destination before the translation. Absent: the same. */
  readonly original?: Pick<Passage, 'destination' | 'port' | 'isToNode'>
  /** Whether the destination is an address of this node. Absent: not known. */
  readonly isToNode?: boolean | undefined
  /** The source is an address of this node. */
  readonly isFromNode: boolean
  /** conntrack does not track the packet. */
  readonly isUntracked?: true | undefined
  /** At hook postrouting: a rule of Viaduct gives the packet the node's address as its source. */
  readonly isMasqueraded?: boolean
  /** The packet leaves the hook at this priority, and later chains do not see it. Absent: it passes all chains. */
  readonly leavesAt?: number
  /** Viaduct's own chains. True: they accept the packet at this hook. False: they let it pass. */
  readonly ownChains: ReadonlyMap<string, boolean>
}

/** The fate at a hook. `may-drop`: it depends on rules that cannot be evaluated. */
export interface FirewallFate {
  readonly state: 'passes' | 'drops' | 'rejects' | 'may-drop'
  /** The rule that drops the packet or may drop it, one clause; of `passes` empty. */
  readonly by: string
}

const passes: FirewallFate = { state: 'passes', by: '' }

/** A chain that packets enter at a hook. */
export type BaseChain = FirewallChain & { readonly entrance: FirewallEntrance }

/** The chains of a node, by their places. */
export class FirewallChains {
  readonly #base: readonly BaseChain[]
  readonly #byPlace: ReadonlyMap<string, FirewallChain>

  constructor(chains: readonly FirewallChain[]) {
    this.#base = chains
      .filter((chain): chain is BaseChain => chain.entrance !== undefined)
      .toSorted(
        (a, b) =>
          a.entrance.priority - b.entrance.priority ||
          (a.entrance.natOrder ?? 0) - (b.entrance.natOrder ?? 0),
      )
    this.#byPlace = new Map(chains.map((chain) => [placeOf(chain, chain.chain), chain]))
  }

  /** The base chains of a hook, in the order in which packets pass them. */
  at(hook: FirewallHook): readonly BaseChain[] {
    return this.#base.filter(({ entrance }) => entrance.hook === hook)
  }

  /** The chain of this name in the table of another one; undefined: there is none. */
  beside(chain: FirewallChain, name: string): FirewallChain | undefined {
    return this.#byPlace.get(placeOf(chain, name))
  }
}

/** The reading of the chains for one packet. */
export interface ChainReader {
  /** Throws KernelError. */
  readonly read: () => Promise<FirewallChains>
  /** Lets other work of the agent have its turn. */
  readonly pause: () => Promise<void>
}

/** The kernel's names contain no NUL. */
function placeOf({ flavour, family, table }: FirewallChain, chain: string): string {
  return [flavour, family, table, chain].join('\0')
}

/** Priorities at which IPVS takes packets to virtual servers, by hook (net/netfilter/ipvs/ip_vs_core.c). */
export const ipvsPriorities = { prerouting: Infinity, input: 99, output: -98 } as const

/** The worst fate of the packet in the base chains of its hook. Throws KernelError. */
export async function fateAt(passage: Passage, chains: FirewallChains): Promise<FirewallFate> {
  const fates: FirewallFate[] = []
  for (const base of chains.at(passage.hook)) {
    const { original, leavesAt = Infinity } = passage
    if (base.entrance.priority >= leavesAt || isPassedOver(base, passage)) continue
    const isBefore = isEarly(base) && original !== undefined
    const seen = isBefore ? { ...passage, ...original, isTranslated: false } : passage
    fates.push(
      await new Walk(isBehindSources(base) ? { ...seen, source: undefined } : seen, chains).through(base),
    )
  }
  const worst = fates.find(({ state }) => state === 'drops' || state === 'rejects')
  return worst ?? fates.find(({ state }) => state === 'may-drop') ?? passes
}

/** The hooks at which the kernel translates destinations. */
function isBeforeRouting(hook: FirewallHook): boolean {
  return hook === 'prerouting' || hook === 'output'
}

function isEarly({ entrance: { hook, priority } }: BaseChain): boolean {
  return isBeforeRouting(hook) && priority <= natPriority(hook)
}

/** Whether rules of any program may have translated the source of the packet before it comes to the chain. */
function isBehindSources({ entrance: { hook, priority, natOrder } }: BaseChain): boolean {
  return hook === 'postrouting' && (natOrder ?? priority) >= natPriority(hook)
}

/**
 * Whether a chain of type nat does not see the packet: the kernel leaves out those behind a translation, all of a packet that is not tracked,
 * and at prerouting and input those of the node's own packets, which come in by lo: it has settled their addresses at the hooks output and
 * postrouting. Legacy tables drop no packet in table nat.
 */
function isPassedOver({ flavour, entrance }: BaseChain, passage: Passage): boolean {
  const { hook, natOrder } = entrance
  if (natOrder === undefined) return false
  const { isTranslated, isFromNode, isUntracked, isMasqueraded } = passage
  const comesByLoopback = isFromNode && (hook === 'prerouting' || hook === 'input')
  if (flavour === 'legacy' || isUntracked === true || comesByLoopback) return true
  const isDone = isBeforeRouting(hook) ? isTranslated : hook === 'postrouting' && isMasqueraded
  return natOrder >= natPriority(hook) && isDone === true
}

/** A verdict that ends the way through a base chain. */
interface End {
  readonly state: 'passes' | 'drops' | 'rejects'
  readonly by: string
}

/** A rule that a packet meets or may meet. */
export interface MetRule {
  readonly rule: FirewallRule
  /** The chain of the rule. */
  readonly chain: FirewallChain
  /** The packet certainly meets it. */
  readonly isSure: boolean
  /** The rule, one clause. */
  readonly by: () => string
}

/** Sees the rules that a packet meets or may meet, in their order. */
export interface RuleFollower {
  rule(met: MetRule): void
  /** One of Viaduct's own chains, which is not walked. `isSure`: the packet certainly comes to it. */
  ownChain(name: string, isSure: boolean): void
}

/** The way of a packet through one base chain, and the chains to which it jumps. */
export class Walk {
  readonly #passage: Passage
  readonly #chains: FirewallChains
  readonly #follower: RuleFollower | undefined
  /** Whether a rule that cannot be evaluated may accept the packet. */
  #mayAccept = false
  /** The first rule that may drop the packet. */
  #mayDrop: string | undefined

  constructor(passage: Passage, chains: FirewallChains, follower?: RuleFollower) {
    this.#passage = passage
    this.#chains = chains
    this.#follower = follower
  }

  async through(base: FirewallChain): Promise<FirewallFate> {
    const policy: End = base.accepts
      ? { state: 'passes', by: '' }
      : { state: 'drops', by: `the policy of ${describeChainPlace(base)}` }
    const end = (await this.#follow(base, false)) ?? policy
    if (end.state !== 'passes') return this.#mayAccept ? { state: 'may-drop', by: end.by } : end
    return this.#mayDrop === undefined ? end : { state: 'may-drop', by: this.#mayDrop }
  }

  /** `isDoubtful`: the packet may not get here. undefined: it leaves the chain, or all is in doubt. */
  async #follow(chain: FirewallChain, isDoubtful: boolean): Promise<End | undefined> {
    let doubt = isDoubtful
    for (const [index, rule] of (await chain.rules()).entries()) {
      const isMatched = matches(rule, this.#passage)
      if (isMatched === false || isWithoutEffect(rule)) continue
      // The text of a rule takes longer than its match.
      const by = (): string => `rule ${index + 1} of ${describeChainPlace(chain)} (${rule.text})`
      this.#follower?.rule({ rule, chain, isSure: isMatched === true && !doubt && !this.#mayAccept, by })
      if (rule.verdict === 'continue') continue
      const isSure = isMatched === true && rule.verdict !== 'unknown'
      if (typeof rule.verdict === 'object') {
        const end = await this.#jump(chain, rule.verdict.chain, doubt || !isSure)
        if (end !== undefined) return end
        if (isSure && rule.verdict.isGoto) return undefined
      } else if (rule.verdict === 'return') {
        if (isSure) return undefined
        doubt = true
      } else {
        if (isSure && !doubt) return endOf(rule.verdict, by)
        this.#doubt(rule.verdict, by)
        if (isSure) return undefined
      }
    }
    return undefined
  }

  async #jump(from: FirewallChain, name: string, isDoubtful: boolean): Promise<End | undefined> {
    const accepts = this.#passage.ownChains.get(name)
    if (accepts !== undefined) this.#follower?.ownChain(name, !isDoubtful && !this.#mayAccept)
    if (accepts === true && !isDoubtful) return { state: 'passes', by: '' }
    if (accepts === true) this.#mayAccept = true
    if (accepts !== undefined) return undefined
    const chain = this.#chains.beside(from, name)
    return chain && (await this.#follow(chain, isDoubtful))
  }

  #doubt(verdict: 'accept' | 'drop' | 'reject' | 'unknown', by: () => string): void {
    if (verdict !== 'drop' && verdict !== 'reject') this.#mayAccept = true
    if (verdict !== 'accept') this.#mayDrop ??= by()
  }
}

function isWithoutEffect({ verdict, mark, tracking }: FirewallRule): boolean {
  return verdict === 'continue' && mark === undefined && tracking === undefined
}

function endOf(verdict: 'accept' | 'drop' | 'reject' | 'unknown', by: () => string): End {
  if (verdict === 'drop') return { state: 'drops', by: by() }
  return verdict === 'reject' ? { state: 'rejects', by: by() } : { state: 'passes', by: '' }
}

type Matches = FirewallRule['matches']
type Answer = boolean | undefined

/** undefined: it is not known. */
function matches({ matches: wanted, protocol, isWhole }: FirewallRule, passage: Passage): Answer {
  const answers: Answer[] = [
    isWhole ? true : undefined,
    protocol === undefined || (protocol.number === protocolNumbers[passage.protocol]) !== protocol.isInverted,
    wanted.protocol === undefined || wanted.protocol === passage.protocol,
    isInNetwork(wanted.source, passage.source),
    isInNetwork(wanted.destination, passage.destination),
    cameIn(wanted.inInterface, passage),
    goesOut(wanted.outInterface, passage),
    hasState(wanted.state, passage),
    // The packet is the first of its connection, if there is one.
    wanted.isUnconfirmed !== true || passage.isUntracked !== true,
    hasAddressType(wanted.addressType, passage),
    wanted.destinationPorts === undefined || isWithin(wanted.destinationPorts, passage.port),
    wanted.isSourceDestination === true ? isSelf(passage) : true,
    // The bits of a mark, the entries of a set and the choice of a source port are not known, nor is chance.
    hasUnknown(wanted) ? undefined : true,
  ]
  if (answers.includes(false)) return false
  return answers.includes(undefined) ? undefined : true
}

const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const

function hasUnknown({ sourcePorts, mark, set, recent, probability }: Matches): boolean {
  return [sourcePorts, mark, set, recent, probability].some((match) => match !== undefined)
}

function isInNetwork(network: Matches['source'], address: IpAddress | undefined): Answer {
  if (network === undefined) return true
  if (address === undefined) return undefined
  const { address: first, prefixLength, isInverted = false } = network
  const family = first.includes(':') ? 'ipv6' : 'ipv4'
  return cidrContains({ family, address: first, prefixLength }, address) !== isInverted
}

function cameIn(wanted: Matches['inInterface'], { inInterface }: Passage): Answer {
  if (wanted === undefined) return true
  if (inInterface === undefined) return undefined
  const { name, isInverted = false } = wanted
  const isSame = name.endsWith('+') ? inInterface.startsWith(name.slice(0, -1)) : inInterface === name
  return isSame !== isInverted
}

/** Routes decide by which interface a packet leaves. */
function goesOut(wanted: Matches['outInterface'], { hook }: Passage): Answer {
  if (wanted === undefined) return true
  return hook === 'input' || hook === 'prerouting' ? wanted.isInverted === true : undefined
}

/** The connection is new, if there is one. */
function hasState(wanted: Matches['state'], { isTranslated, isUntracked }: Passage): Answer {
  if (wanted === undefined) return true
  const { bits, isInverted = false } = wanted
  // nft's `ct status` matches no packet without a connection, also if it is inverted; `-m conntrack ! --ctstate DNAT` does.
  if (isUntracked === true && bits === XtState.dnat && isInverted) return undefined
  if (isUntracked === true) return ((bits & XtState.untracked) !== 0) !== isInverted
  if ((bits & XtState.new) !== 0) return !isInverted
  if ((bits & XtState.dnat) === 0) return isInverted
  return isTranslated === undefined ? undefined : isTranslated !== isInverted
}

function hasAddressType(wanted: Matches['addressType'], { hook, isFromNode, isToNode }: Passage): Answer {
  if (wanted === undefined) return true
  const { of, isInverted = false } = wanted
  if (of === 'source') return isFromNode !== isInverted
  if (hook === 'input' || hook === 'forward') return (hook === 'input') !== isInverted
  return isToNode === undefined ? undefined : isToNode !== isInverted
}

function isWithin([first, last]: readonly [number, number], port: number): boolean {
  return first <= port && port <= last
}

function isSelf({ source, destination }: Passage): Answer {
  return source === undefined ? undefined : source === destination
}
