// Chains of other programs that drop connections to Services.
import { type Cidr, type IpAddress, type IpFamily, readAddress } from '../address.js'
import { acceptingCommand } from '../host/index.js'
import { FirewallChains, type Passage, Walk } from '../inspect/index.js'
import {
  type ChainPlace,
  type FirewallChain,
  type FirewallRule,
  isOwnTable,
  XtState,
} from '../kernel/index.js'
import { type Check, type Examined, nodePorts, ok, partProblemsOr, type Verdict } from './check.js'

export const barrierChecks: readonly Check[] = [
  {
    name: 'forward',
    looksAt:
      'chains of nf_tables and of the legacy tables at hook forward, and those to which they jump, that drop what no rule accepts',
    run: async (node) =>
      partProblemsOr(
        node,
        ['nf_tables'],
        await closedForwards(node),
        'no chain at hook forward drops connections to Services',
      ),
  },
  {
    name: 'input',
    looksAt:
      'in ipvs and userspace mode, chains of nf_tables and of the legacy tables at hook input, and those to which they jump, that drop what no rule accepts',
    run: async (node) => {
      const { chosen = '' } = node.modes
      if (!chosen.startsWith('ipvs') && chosen !== 'userspace')
        return ok('in this mode connections to Services do not come in at hook input')
      return partProblemsOr(
        node,
        ['nf_tables'],
        await closedInputs(node),
        'no chain at hook input drops connections to Services',
      )
    },
  },
]

/** A chain at a hook that drops every packet of a family which no rule accepts. */
interface Barrier {
  readonly family: IpFamily
  readonly chain: ChainPlace
  /** The rule or policy that drops. */
  readonly by: string
}

/** The kinds of frontends: what their connections have in common, and whether an accepting rule is one for them. */
const frontends: readonly { readonly what: string; readonly accepts: (rule: FirewallRule) => boolean }[] = [
  { what: 'the network of cluster IPs', accepts: acceptsNetwork },
  { what: `TCP ports ${nodePorts.first} to ${nodePorts.last} (node ports)`, accepts: acceptsNodePorts },
]

async function closedForwards(node: Examined): Promise<readonly Verdict[]> {
  const barriers = await barriersAt(node, 'forward', acceptsTranslated)
  // A chain of both families is read with each of them.
  const found = new Map(barriers.map((barrier) => [barrier.by, barrier]))
  return [...found.values()]
    .filter((barrier) => !isOfAgent(node, barrier))
    .map(({ chain, by }) => ({
      status: 'warning',
      seen: `${by} drops forwarded connections`,
      cause:
        'Every chain at the hook must accept a packet: forwarded connections to Services fail unless an earlier rule accepts them.',
      remedy: `Accept the traffic of Services there: ${acceptingCommand(chain, chain.flavour)}.`,
    }))
}

async function closedInputs(node: Examined): Promise<readonly Verdict[]> {
  const found: Verdict[] = []
  for (const { what, accepts } of frontends)
    for (const { family, by } of await barriersAt(node, 'input', accepts))
      found.push({
        status: 'warning',
        seen: `${by} drops ${familyNames[family]} connections, and no earlier rule accepts all of those to ${what}`,
        cause:
          'In this mode connections to Services come in at hook input: those of pods and of other hosts fail unless an earlier rule accepts them.',
        remedy: `Accept connections to ${what} there, in the configuration of the program that made the chain.`,
      })
  return found
}

const familyNames = { ipv4: 'IPv4', ipv6: 'IPv6' } as const

/** The barriers at a hook. `accepts`: whether an accepting rule that is not for all packets is one for Services. */
async function barriersAt(
  { kernel }: Examined,
  hook: 'forward' | 'input',
  accepts: (rule: FirewallRule) => boolean,
): Promise<readonly Barrier[]> {
  const found: Barrier[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const all = await kernel.firewall(family, {
      isLeftOut: isOwnTable,
      hasLegacyNat: false,
    })
    const chains = new FirewallChains(all.map((chain) => withoutExceptions(chain, accepts)))
    for (const chain of chains.at(hook)) {
      const { state, by } = await new Walk(packetAt(hook), chains).through(chain)
      if (state === 'drops' || state === 'rejects') found.push({ family, chain, by })
    }
  }
  return found
}

/** The first packet of a connection to a Service, of which nothing else is known. No rule that is left compares its addresses and port. */
function packetAt(hook: 'forward' | 'input'): Passage {
  return {
    hook,
    source: undefined,
    destination: readAddress(new Uint8Array(4), 0, 'ipv4'),
    port: 0,
    protocol: 'tcp',
    inInterface: undefined,
    isTranslated: hook === 'forward',
    isFromNode: false,
    ownChains: new Map(),
  }
}

/**
 * The chain without the rules for some packets only. Of these, an accepting rule for Services accepts all packets in its state of the
 * connection, and whether a packet follows a jump or returns is open.
 */
function withoutExceptions(chain: FirewallChain, accepts: (rule: FirewallRule) => boolean): FirewallChain {
  const read = async (): Promise<readonly FirewallRule[]> =>
    (await chain.rules()).map((rule): FirewallRule => {
      if (isForAll(rule)) return rule
      const { verdict } = rule
      const isOpen = typeof verdict === 'object' || verdict === 'return'
      const counts = isOpen || (verdict === 'accept' && accepts(rule))
      const { state } = rule.matches
      const matches = state === undefined ? {} : { state }
      return { text: '', matches, isWhole: !isOpen, verdict: counts ? verdict : 'continue' }
    })
  return { ...chain, rules: read }
}

/** Whether the rule compares nothing but the state of the connection and the type of an address. */
function isForAll({ matches, protocol, isWhole }: FirewallRule): boolean {
  const { state: _state, addressType: _addressType, comment: _comment, ...others } = matches
  return isWhole && protocol === undefined && Object.keys(others).length === 0
}

/** `-m conntrack --ctstate DNAT`, `ct status dnat`, with other matches too. */
function acceptsTranslated({ matches: { state } }: FirewallRule): boolean {
  return state !== undefined && state.isInverted !== true && (state.bits & XtState.dnat) !== 0
}

/** Whether the rule accepts all TCP connections to a network that may be that of cluster IPs. */
function acceptsNetwork(rule: FirewallRule): boolean {
  const { state: _state, comment: _comment, destination, protocol, ...others } = rule.matches
  if (!rule.isWhole || destination === undefined || Object.keys(others).length > 0) return false
  const isForTcp = (protocol === undefined && rule.protocol === undefined) || isTcp(rule)
  return isForTcp && destination.isInverted !== true && !isSpecial(destination) && !isOneAddress(destination)
}

function isTcp({ matches, protocol }: FirewallRule): boolean {
  return matches.protocol === 'tcp' || (protocol?.number === 6 && !protocol.isInverted)
}

/** Loopback, link-local, multicast and broadcast. */
function isSpecial({ address }: { readonly address: IpAddress }): boolean {
  return /^(?:127\.|169\.254\.|22[4-9]\.|2[3-5]\d\.|ff|fe[89ab])/u.test(address)
}

function isOneAddress({ address, prefixLength }: Pick<Cidr, 'address' | 'prefixLength'>): boolean {
  return prefixLength === (address.includes(':') ? 128 : 32)
}

/** Whether the rule accepts all TCP connections to the node ports. */
function acceptsNodePorts(rule: FirewallRule): boolean {
  const { state: _state, comment: _comment, protocol: _, destinationPorts, ...others } = rule.matches
  if (!rule.isWhole || destinationPorts === undefined || Object.keys(others).length > 0) return false
  const [first, last] = destinationPorts
  return isTcp(rule) && first <= nodePorts.first && last >= nodePorts.last
}

/** The agent accepts connections to Services in FORWARD of the flavour that it uses. */
function isOfAgent({ modes: { chosen = '', flavour } }: Examined, { chain }: Barrier): boolean {
  const accepts = !chosen.startsWith('nftables') && chain.flavour === flavour
  return accepts && chain.family !== 'inet' && chain.table === 'filter' && chain.chain === 'FORWARD'
}
