import type { ServiceFlow } from '../../engine/index.js'
import type { IpvsConnection } from '../../kernel/index.js'

/** The connections of IPVS. */
export async function* flowsOf(connections: AsyncIterable<IpvsConnection>): AsyncGenerator<ServiceFlow> {
  for await (const { protocol, client, virtual, real, state, expiresSeconds } of connections)
    yield {
      protocol,
      source: client.address,
      sourcePort: client.port,
      destination: virtual.address,
      destinationPort: virtual.port,
      endpoint: real,
      state: protocol === 'tcp' ? state : undefined,
      timeoutSeconds: expiresSeconds,
    }
}
