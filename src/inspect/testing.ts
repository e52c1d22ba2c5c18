// The inside of this room, for tests and benchmarks. No file of src imports it.
export type { Packet, PacketView } from './explain-client.js'
export { type MarkedPacket, markAt, type MarkComparison } from './explain-mark.js'
export { type PacketDecision, explainPacket } from './explain-packet.js'
export { type KernelRoutes, ownSource, withRoutes } from './explain-routes.js'
export { withOtherRules } from './explain-firewall.js'
export { type ChainReader, type FirewallFate, fateAt } from './firewall.js'
