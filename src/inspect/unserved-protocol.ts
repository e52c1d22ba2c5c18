// A protocol that a mode does not serve.
import type { PacketRules } from '../engine/index.js'

/** Why the mode refuses the protocol; undefined: it serves it. */
export function unservedProtocol(
  { isRelayed }: Pick<PacketRules, 'isRelayed'>,
  protocol: string,
): string | undefined {
  return isRelayed && protocol.toUpperCase() === 'SCTP' ? 'the relay serves no SCTP' : undefined
}
