// Rules of other programs that change the packet mark by which a mode recognizes a Service.
import type { ServiceMarks } from '../engine/index.js'
import type { MarkChange } from '../kernel/index.js'
import { isOnMachine, type Packet, type PacketView } from './explain-client.js'
import { isRelayed } from './explain-frontend.js'
import { explainPacket, type PacketDecision } from './explain-packet.js'
import { type ChainReader, ipvsPriorities, type Passage, type RuleFollower, Walk } from './firewall.js'

/** Whether the packet has the mark of its Service when it reaches IPVS. */
export interface MarkAnswer {
  /**
   * `keeps`: it has. `may-lose`: it depends on rules that cannot be evaluated, and without the mark the packet goes to endpoints of this
   * node if there are any. `loses`: it has not, and the endpoints are those without the mark. `not-asked`: no mark leads the packet, or the
   * mode has not programmed the Service yet. `unknown`: the kernel did not answer.
   */
  readonly state: 'keeps' | 'may-lose' | 'loses' | 'not-asked' | 'unknown'
  /** The rule that changes the mark or may change it, or another reason, one clause; of other states empty. */
  readonly by: string
}

interface Marked {
  readonly decision: PacketDecision
  readonly mark: MarkAnswer
}

/** The decision again, with the mark with which the packet reaches IPVS. Throws KernelError. */
export async function withMark(
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
  reader: ChainReader,
): Promise<Marked> {
  const { marks } = view.rules
  const { found, isByMark } = decision
  const isLed = marks !== undefined && isByMark === true && !isRelayed(packet, view)
  const mark = isLed && found !== undefined ? marks.of(found.port.key) : undefined
  if (marks === undefined || mark === undefined) return { decision, mark: { state: 'not-asked', by: '' } }
  const withoutMark = (lostMark: string, by: string): Marked => ({
    decision: explainPacket(packet, { ...view, lostMark }),
    mark: { state: 'loses', by },
  })
  if (mark === 'all-taken') {
    const reason = 'the Service has no firewall mark: all are taken'
    return withoutMark(reason, reason)
  }
  const { destination, port, protocol, inInterface } = packet
  const { client } = decision
  const passes = view.rules.sharedChains.all.map((chain) => [chain, false] as const)
  const marked: MarkedPacket = {
    source: client.address,
    destination,
    port,
    protocol,
    inInterface: client.isNode ? '' : inInterface,
    isFromNode: client.isNode,
    // In table nat it accepts connections to VIPs.
    ownChains: new Map([...passes, ['KUBE-SERVICES', !isOnMachine(packet, view)]]),
    mark,
    marks,
  }
  const { state, by = `${marks.chains.join(' or ')} does not see it` } = await markAt(marked, reader)
  switch (state) {
    case 'same':
      return { decision, mark: { state: 'keeps', by: '' } }
    case 'other':
      return withoutMark(`the packet loses the mark of the Service: ${by}`, by)
    case 'unknown': {
      const text = `the packet may lose the mark of the Service, and then goes to endpoints of this node if there are any: ${by}`
      const steps = [...decision.steps, { rule: 'F-052', text } as const]
      return { decision: { ...decision, steps }, mark: { state: 'may-lose', by } }
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
  { read, pause }: ChainReader,
): Promise<MarkComparison> {
  const chains = await read()
  const found = new PacketMark()
  const follower: RuleFollower = {
    rule: ({ rule: { mark: change }, isSure, by }) => {
      if (change !== undefined) found.change(change, isSure, by)
    },
    ownChain: (name, isSure) => {
      if (marks.chains.includes(name))
        found.change({ mask: marks.mask, value: mark }, isSure, () => `it may not come to chain ${name}`)
    },
  }
  const hooks = packet.isFromNode ? (['output'] as const) : (['prerouting', 'input'] as const)
  for (const hook of hooks) {
    const passage: Passage = { ...packet, hook, isTranslated: false }
    for (const chain of chains.at(hook)) {
      if (chain.entrance.priority >= ipvsPriorities[hook]) continue
      await new Walk(passage, chains, follower).through(chain)
      await pause()
    }
  }
  return found.compare(mark, marks.masqueradeMark)
}

const everyBit = 0xffffffff

/** The answer to whether the mark is the expected one. `by`: the rule that decides, as `Walk` names it; undefined: no rule. */
export interface MarkComparison {
  readonly state: 'same' | 'other' | 'unknown'
  readonly by: string | undefined
}

/** The mark of a packet while it passes rules. It begins as 0. */
class PacketMark {
  #value = 0
  /** The bits whose values are known. */
  #known = everyBit
  /** The changes, the last one last. */
  readonly #changes: { readonly bits: number; readonly by: () => string }[] = []

  /** `isSure` false: the change may not happen. `by`: its rule, which is asked for only if it decides. */
  change({ mask, value }: MarkChange, isSure: boolean, by: () => string): void {
    const changed = (this.#value & ~mask) ^ (value ?? 0)
    const known = value === undefined ? this.#known & ~mask : this.#known | mask
    // In doubt a bit is known if it is the same with the change and without it.
    const next = isSure ? known : known & this.#known & ~(changed ^ this.#value)
    const bits = (changed ^ this.#value) | (next ^ this.#known)
    if (bits !== 0) this.#changes.push({ bits, by })
    if (isSure) this.#value = changed
    this.#known = next
  }

  /** Whether the mark is `expected`, apart from the bits `ignored`. */
  compare(expected: number, ignored: number): MarkComparison {
    const other = (this.#value ^ expected) & this.#known & ~ignored
    const open = ~this.#known & ~ignored
    const bits = other === 0 ? open : other
    const by = this.#changes.findLast((change) => (change.bits & bits) !== 0)?.by
    return { state: other !== 0 ? 'other' : open !== 0 ? 'unknown' : 'same', by: by?.() }
  }
}
