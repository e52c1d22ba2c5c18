import type { ServiceFlow } from '../../engine/index.js'
import type { RelayFlow } from '../../kernel/index.js'

/** The connections and flows of the relay. Until the endpoint has accepted a connection, its state is SYN_SENT. */
export function* flowsOf(flows: Iterable<RelayFlow>): Generator<ServiceFlow> {
  for (const { protocol, client, frontend, endpoint, isConnected } of flows)
    yield {
      protocol,
      source: client.address,
      sourcePort: client.port,
      destination: frontend.address,
      destinationPort: frontend.port,
      endpoint,
      state: protocol === 'udp' ? undefined : isConnected ? 'ESTABLISHED' : 'SYN_SENT',
      timeoutSeconds: undefined,
    }
}
