// A protocol that a mode does not serve.

/** Why the mode refuses the protocol; undefined: it serves it. `isRelayed`: asked only where it decides, as many rows ask. */
export function unservedProtocol(protocol: string, isRelayed: () => boolean): string | undefined {
  return protocol.toUpperCase() === 'SCTP' && isRelayed() ? 'the relay serves no SCTP' : undefined
}
