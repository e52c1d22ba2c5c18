// The rules of other programs on the way of a packet that explain has decided on: first those that change its mark, then the firewall:
// those that drop it, and those that take it away.
import { KernelError } from '../errors.js'
import type { Packet, PacketView } from './explain-client.js'
import { type MarkAnswer, withMark } from './explain-mark.js'
import type { PacketDecision, PacketStep, PacketVerdict } from './explain-packet.js'
import { type ChainReader, type FirewallChains, type FirewallFate, fateAt, type Passage } from './firewall.js'
import { withBypass } from './explain-bypass.js'
import { waysOf } from './explain-passage.js'

/** The decision with both answers. If the kernel does not answer, the answers and the decision are those up to there. */
export async function withOtherRules(
  packet: Packet,
  view: PacketView,
  decision: PacketDecision,
  reader: ChainReader,
): Promise<Firewalled & { readonly mark: MarkAnswer }> {
  let marked: Awaited<ReturnType<typeof withMark>> | undefined
  try {
    marked = await withMark(packet, view, decision, reader)
    return { ...(await withFirewall(packet, view, marked.decision, reader)), mark: marked.mark }
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    const { decision: last, mark } = marked ?? { decision, mark: { state: 'unknown', by: '' } }
    const { verdict, endpoints, steps } = last
    return { verdict, endpoints, steps, firewall: { state: 'unknown', rules: [error.message] }, mark }
  }
}

/** The treatment of a packet by rules of other programs. */
export interface FirewallAnswer {
  /**
   * `drops`: they drop or reject it, whichever endpoint it is for. `bypasses`: they take it away before rules of Services see it: they leave
   * it untracked, accept it earlier, or give it another destination; in ipvs mode it may only miss those that masquerade. `may-drop`,
   * `may-bypass`: rules that cannot be evaluated decide, or it depends on the endpoint. `not-asked`: it does not get that far. `unknown`: the
   * kernel did not answer.
   */
  readonly state: 'passes' | 'drops' | 'bypasses' | 'may-drop' | 'may-bypass' | 'not-asked' | 'unknown'
  /** A sentence per rule; for `unknown`: the kernel's error. */
  readonly rules: readonly string[]
}

/** The answer, and the decision with it. */
export interface Firewalled extends Pick<PacketDecision, 'verdict' | 'endpoints' | 'steps'> {
  readonly firewall: FirewallAnswer
}

/** Follows the request through all hooks. Throws KernelError. */
async function withFirewall(
  packet: Packet,
  view: PacketView,
  decided: PacketDecision,
  reader: ChainReader,
): Promise<Firewalled> {
  const { outcomes, state: bypass, rules: taken, added } = await withBypass(packet, view, decided, reader)
  const [{ decision }] = outcomes
  const ways = outcomes.flatMap((outcome) => waysOf(packet, view, outcome))
  const { verdict, endpoints, steps } = decision
  if (ways.length === 0 && bypass === 'none')
    return { verdict, endpoints, steps, firewall: { state: 'not-asked', rules: [] } }
  const chains = await reader.read()
  const fates: FirewallFate[] = []
  for (const way of ways) {
    fates.push(await fateOf(way, chains))
    await reader.pause()
  }
  const lines = new Set(fates.flatMap((fate) => (fate.state === 'passes' ? [] : [sentenceOf(fate)])))
  const all = [...steps, ...[...added, ...lines].map((text): PacketStep => ({ text }))]
  const rules = [...taken, ...lines]
  const isDropped = fates.length > 0 && fates.every(({ state }) => state === 'drops' || state === 'rejects')
  if (isDropped)
    return { verdict: verdictOf(fates), endpoints, steps: all, firewall: { state: 'drops', rules } }
  const state = bypass === 'bypasses' ? bypass : lines.size > 0 ? 'may-drop' : bypass
  return { verdict, endpoints, steps: all, firewall: { state: state === 'none' ? 'passes' : state, rules } }
}

function verdictOf(fates: readonly FirewallFate[]): PacketVerdict {
  return fates.every(({ state }) => state === 'rejects') ? 'refuse' : 'drop'
}

function sentenceOf({ state, by }: FirewallFate): string {
  const verb = { passes: 'passes', drops: 'drops', rejects: 'rejects', 'may-drop': 'may drop' }[state]
  return `the node's own firewall ${verb} the packet: ${by}`
}

/** The first fate along the way that is not to pass. */
async function fateOf(way: readonly Passage[], chains: FirewallChains): Promise<FirewallFate> {
  let doubtful: FirewallFate | undefined
  for (const passage of way) {
    const fate = await fateAt(passage, chains)
    if (fate.state === 'drops' || fate.state === 'rejects') return fate
    if (fate.state === 'may-drop') doubtful ??= fate
  }
  return doubtful ?? { state: 'passes', by: '' }
}
