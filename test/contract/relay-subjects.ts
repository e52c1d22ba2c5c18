import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { RelayAddress } from '../../src/kernel/index.js'
import { describeRelayListener } from '../../src/kernel/index.js'
import { openModelKernel } from '../model/index.js'
import { openRealKernel } from './real-kernel.js'
import type { RelaySubject } from './relay.contract.js'

export function openModelRelay(): RelaySubject {
  const kernel = openModelKernel()
  const { foreignSockets } = kernel.relay
  return {
    relay: kernel.relay,
    routes: kernel.routes,
    take: async (address) => {
      if (kernel.relay.sharesPortWith(address))
        throw Object.assign(new Error('bind EADDRINUSE'), { code: 'EADDRINUSE' })
      foreignSockets.add(describeRelayListener(address))
      return async () => void foreignSockets.delete(describeRelayListener(address))
    },
    close: () => kernel.close(),
  }
}

/** Binds as another program does. */
async function bindElsewhere({ protocol, address, port }: RelayAddress): Promise<() => Promise<void>> {
  if (protocol === 'tcp') {
    const server = createServer()
    await once(server.listen({ host: address, port, ipv6Only: true }), 'listening')
    return async () => void (await once(server.close(), 'close'))
  }
  const isIpv6 = address.includes(':')
  const socket = createSocket({ type: isIpv6 ? 'udp6' : 'udp4', ipv6Only: isIpv6 })
  socket.bind(port, address)
  await once(socket, 'listening')
  return async () => void (await once(socket.close(), 'close'))
}

export function openRealRelay(): RelaySubject {
  const kernel = openRealKernel()
  return { relay: kernel.relay, routes: kernel.routes, take: bindElsewhere, close: () => kernel.close() }
}
