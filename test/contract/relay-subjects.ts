import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { RelayAddress } from '../../src/kernel/testing.js'
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

/** Listens with SO_REUSEPORT, which Node has from 23.1 on, until its input ends. Arguments: address, port. */
const sharingServer = `
import socket, sys
address, port = sys.argv[1], int(sys.argv[2])
server = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
    server.bind((address, port))
    server.listen()
    print('listening', flush=True)
    sys.stdin.read()
except OSError as error:
    print(error.strerror, flush=True)
`

async function listenSharing({ address, port }: RelayAddress): Promise<() => Promise<void>> {
  const stdio = ['pipe', 'pipe', 'inherit'] as const
  const child = spawn('python3', ['-c', sharingServer, address, String(port)], { stdio: [...stdio] })
  const [output]: unknown[] = await once(child.stdout, 'data')
  const free = async (): Promise<void> => {
    child.stdin.end()
    if (child.exitCode === null) await once(child, 'exit')
  }
  if (String(output).startsWith('listening')) return free
  await free()
  throw Object.assign(new Error(`bind: ${String(output)}`), { code: 'EADDRINUSE' })
}

/** Binds as another program does. */
async function bindElsewhere(
  one: RelayAddress,
  { sharing } = { sharing: false },
): Promise<() => Promise<void>> {
  const { protocol, address, port } = one
  if (protocol === 'tcp' && sharing) return await listenSharing(one)
  if (protocol === 'tcp') {
    const server = createServer()
    await once(server.listen({ host: address, port, ipv6Only: true }), 'listening')
    return async () => void (await once(server.close(), 'close'))
  }
  const isIpv6 = address.includes(':')
  const socket = createSocket({ type: isIpv6 ? 'udp6' : 'udp4', ipv6Only: isIpv6, reuseAddr: sharing })
  socket.bind(port, address)
  await once(socket, 'listening')
  return async () => void (await once(socket.close(), 'close'))
}

export function openRealRelay(): RelaySubject {
  const kernel = openRealKernel()
  return { relay: kernel.relay, routes: kernel.routes, take: bindElsewhere, close: () => kernel.close() }
}
