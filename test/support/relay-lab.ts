// A relay in this process, with servers as its endpoints and clients of its listeners. Runs in a namespace of its own.
import assert from 'node:assert/strict'
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { IpAddress } from '../../src/address.js'
import type {
  Kernel,
  RelayCounters,
  RelayEndpoint,
  RelayListener,
  RelayOp,
  RelayService,
} from '../../src/kernel/index.js'
import type { RelaySettings } from '../../src/kernel/testing.js'
import { applyAll, ip } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'

/** The port of all listeners. */
const port = 8080

export const plainSettings: RelaySettings = {
  nearNetworks: [],
  nearInterfaces: [],
  udpIdleMs: 60_000,
  nodePortAddresses: [ip('127.0.0.1'), ip('::1')],
}

type Handler = (socket: Socket) => void

export class RelayLab {
  /** The address that clients connect to. */
  readonly address: IpAddress
  /** The address of the listeners: the same, or the wildcard. */
  readonly #listensOn: IpAddress
  /** The address of the servers. */
  readonly #home: IpAddress
  readonly kernel: Kernel = openRealKernel()
  readonly #servers: Server[] = []
  readonly #udpSockets: UdpSocket[] = []
  readonly #sockets = new Set<Socket>()

  constructor(address: IpAddress, home: IpAddress = address, listensOn: IpAddress = address) {
    this.address = address
    this.#listensOn = listensOn
    this.#home = home
  }

  /** Runs `handle` for each connection. */
  async serve(handle: Handler): Promise<RelayEndpoint> {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#keep(socket)
      handle(socket)
    })
    await once(server.listen(0, this.#home), 'listening')
    this.#servers.push(server)
    return { address: this.#home, port: boundPort(server.address()) }
  }

  /** A server that sends its name and ends. */
  serveName(name: string): Promise<RelayEndpoint> {
    return this.serve((socket) => void socket.resume().end(name))
  }

  serveEcho(): Promise<RelayEndpoint> {
    return this.serve((socket) => void socket.pipe(socket))
  }

  /** A UDP server that answers with `name` and the received datagram. */
  async serveUdp(name = ''): Promise<{ readonly endpoint: RelayEndpoint; readonly socket: UdpSocket }> {
    const socket = this.openUdp()
    socket.on('message', (data, from) => socket.send([Buffer.from(name), data], from.port, from.address))
    socket.bind(0, this.#home)
    await once(socket, 'listening')
    return { endpoint: { address: this.#home, port: socket.address().port }, socket }
  }

  openUdp(): UdpSocket {
    const socket = createSocket(this.address.includes(':') ? 'udp6' : 'udp4')
    this.#udpSockets.push(socket)
    return socket
  }

  closeUdp(socket: UdpSocket): void {
    this.#udpSockets.splice(this.#udpSockets.indexOf(socket), 1)
    socket.close()
  }

  /** An endpoint that refuses connections: its port was free a moment ago. */
  async refuse(): Promise<RelayEndpoint> {
    const endpoint = await this.serveName('')
    const server = this.#servers.pop()
    assert.ok(server !== undefined)
    await once(server.close(), 'close')
    return endpoint
  }

  /** Sets service 1 and its listener. */
  async listen(
    service: Partial<RelayService> & Pick<RelayService, 'clusterEndpoints'>,
    listener: Partial<RelayListener> = {},
  ): Promise<void> {
    await this.apply(
      {
        op: 'set-service',
        name: 'a',
        service: {
          id: 1,
          affinitySeconds: undefined,
          localEndpoints: [],
          flowEndpoints: service.clusterEndpoints,
          sourceRanges: [],
          ...service,
        },
      },
      { op: 'set-listener', listener: this.listener(listener) },
    )
  }

  listener(more: Partial<RelayListener> = {}): RelayListener {
    return {
      protocol: 'tcp',
      address: this.#listensOn,
      port,
      service: 1,
      near: 'cluster',
      far: 'cluster',
      hasSourceRanges: false,
      ...more,
    }
  }

  async apply(...ops: readonly RelayOp[]): Promise<void> {
    await applyAll(this.kernel.relay, ops)
  }

  /** A client of the listener. */
  connect(toPort = port, localPort?: number, host: IpAddress = this.address): Socket {
    const socket = connect({
      host,
      port: toPort,
      allowHalfOpen: true,
      ...(localPort === undefined ? {} : { localPort }),
    })
    this.#keep(socket)
    return socket
  }

  /** The bytes that a client gets until the end; the error code of a connection that fails. */
  async ask(request = ''): Promise<string> {
    return await readAll(this.connect().end(request))
  }

  /** Sends a datagram to the listener and resolves with the answer. */
  async askUdp(client: UdpSocket, data: string | Buffer): Promise<Buffer> {
    const answer = once(client, 'message')
    client.send(data, port, this.address)
    const [message]: unknown[] = await answer
    assert.ok(Buffer.isBuffer(message))
    return message
  }

  counters(): Promise<RelayCounters> {
    return this.kernel.relay.counters()
  }

  /** Waits until the counters fit. A test that fails runs into its time limit. */
  async until(fits: (counters: RelayCounters) => boolean): Promise<void> {
    while (!fits(await this.counters())) await new Promise((resolve) => void setImmediate(resolve))
  }

  async close(): Promise<void> {
    await this.kernel.close()
    for (const socket of this.#sockets) socket.destroy()
    for (const socket of this.#udpSockets) socket.close()
    await Promise.all(this.#servers.map((server) => once(server.close(), 'close')))
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => {}) // the tests read it from readAll()
    socket.on('close', () => void this.#sockets.delete(socket))
  }
}

function boundPort(address: ReturnType<Server['address']>): number {
  assert.ok(typeof address === 'object' && address !== null)
  return address.port
}

export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
}

/** A promise that a handler of an event resolves. */
export function deferred<T>(): Deferred<T> {
  let settle: ((value: T) => void) | undefined
  const promise = new Promise<T>((resolve) => {
    settle = resolve
  })
  return { promise, resolve: (value) => settle?.(value) }
}

/** The received text; for a failed connection the error code. */
export async function readAll(socket: Socket): Promise<string> {
  let text = ''
  socket.setEncoding('latin1').on('data', (data: string) => (text += data))
  return await new Promise((resolve) => {
    socket.once('error', (error) => resolve('code' in error ? String(error.code) : error.message))
    socket.once('end', () => resolve(text))
  })
}
