// Rules of other programs that change the packet mark by which a mode recognizes a Service.
import type { ServiceMarks } from '../engine/index.js'
import { isLoopback } from '../node/index.js'
import type { Packet, PacketView } from './explain-client.js'
import { isRelayed } from './explain-frontend.js'
import { explainPacket, type PacketDecision } from './explain-packet.js'
import { type FirewallChains, ipvsPriorities, type MarkFollower, type Passage, Walk } from './firewall.js'
import { type MarkComparison, PacketMark } from './packet-mark.js'

/** The decision again, with the mark with which the packet reaches IPVS. Throws KernelError. */
export async function withMark(
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
  read: () => Promise<FirewallChains>,
): Promise<PacketDecision> {
  const { marks } = view.rules
  const { found, isByMark } = decision
  if (marks === undefined || found === undefined || isByMark !== true || isRelayed(packet, view))
    return decision
  const mark = marks.of(found.port.key)
  if (mark === undefined)
    return explainPacket(packet, { ...view, lostMark: 'the Service has no firewall mark: all are taken' })
  const { destination, port, protocol, inInterface } = packet
  const { client } = decision
  const isOnMachine = view.machine.includes(destination) || isLoopback(destination)
  const passes = view.rules.sharedChains.all.map((chain) => [chain, false] as const)
  const marked: MarkedPacket = {
    source: client.address,
    destination,
    port,
    protocol,
    inInterface: client.isNode ? '' : inInterface,
    isFromNode: client.isNode,
    // In table nat it accepts connections to VIPs.
    ownChains: new Map([...passes, ['KUBE-SERVICES', !isOnMachine]]),
    mark,
    marks,
  }
  const { state, by = `${marks.chains.join(' or ')} does not see it` } = await markAt(marked, await read())
  switch (state) {
    case 'same':
      return decision
    case 'other':
      return explainPacket(packet, { ...view, lostMark: `the packet loses the mark of the Service: ${by}` })
    case 'unknown': {
      const text = `the packet may lose the mark of the Service, and then goes to endpoints of this node if there are any: ${by}`
      return { ...decision, steps: [...decision.steps, { rule: 'F-052', text }] }
    }
  }
}

/** A packet to a Service that has a mark. */
export interface MarkedPacket extends Omit<Passage, 'hook' | 'isTranslated' | 'leavesAt' | 'original'> {
  readonly mark: number
  readonly marks: Omit<ServiceMarks, 'of'>
}

/** The mark of the packet at IPVS, compared with that of its Service. Throws KernelError. */
export async function markAt(
  { mark, marks, ...packet }: MarkedPacket,
  chains: FirewallChains,
): Promise<MarkComparison> {
  const found = new PacketMark()
  const follower: MarkFollower = {
    rule: (change, isSure, by) => found.change(change, isSure, by),
    ownChain: (name, isSure) => {
      if (marks.chains.includes(name))
        found.change({ mask: marks.mask, value: mark }, isSure, `it may not come to chain ${name}`)
    },
  }
  const hooks = packet.isFromNode ? (['output'] as const) : (['prerouting', 'input'] as const)
  for (const hook of hooks) {
    const passage: Passage = { ...packet, hook, isTranslated: false }
    for (const chain of chains.at(hook)) {
      if (chain.entrance.priority >= ipvsPriorities[hook]) continue
      await new Walk(passage, chains, follower).through(chain)
    }
  }
  return found.compare(mark, marks.masqueradeMark)
}
