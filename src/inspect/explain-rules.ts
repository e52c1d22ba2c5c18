// The rules of other programs on the way of a packet that explain has decided on: first those that change its mark, then the firewall.
import { KernelError } from '../errors.js'
import type { Packet, PacketView } from './explain-client.js'
import { type Firewalled, withFirewall } from './explain-firewall.js'
import { type MarkAnswer, withMark } from './explain-mark.js'
import type { PacketDecision } from './explain-packet.js'
import type { ChainReader } from './firewall.js'

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
