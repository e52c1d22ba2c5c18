// HTTP clients, connections and free ports on loopback.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request, type IncomingHttpHeaders } from 'node:http'
import { connect, createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'

export interface HttpReply {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Question {
  readonly path?: string
  readonly method?: string
  readonly host?: string
  /** The client's own address. Default: the kernel chooses. */
  readonly localAddress?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** One request on a connection of its own. Rejects when the port is closed, or when the connection ends without a reply. */
export async function ask(port: number, question: Question = {}): Promise<HttpReply> {
  const { host = '127.0.0.1', path = '/', method = 'GET', headers = {}, localAddress } = question
  return await new Promise((resolve, reject) => {
    const outgoing = request(
      { host, port, path, method, headers: { ...headers }, agent: false, localAddress },
      (response) => {
        let body = ''
        response.setEncoding('utf8')
        response.on('data', (text: string) => (body += text))
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }))
      },
    )
    outgoing.on('error', reject)
    outgoing.end(question.body)
  })
}

export async function assertRefused(port: number): Promise<void> {
  await assert.rejects(ask(port), { code: 'ECONNREFUSED' })
}

/** A connection without a request, from this address. */
export async function connected(port: number, localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress }).setEncoding('utf8')
  await once(socket, 'connect')
  return socket
}

/** The text that the socket receives up to `end`, or up to the end of the connection. */
export async function readUntil(socket: Socket, end: string | undefined): Promise<string> {
  let text = ''
  return await new Promise((resolve, reject) => {
    const take = (data: string): void => {
      text += data
      if (end === undefined || !text.endsWith(end)) return
      socket.removeListener('data', take)
      resolve(text)
    }
    socket.on('data', take)
    socket.once('end', () => resolve(text))
    socket.once('error', reject)
  })
}

/** A server of another program, which occupies the port. */
export async function occupy(
  port = 0,
  host = '127.0.0.1',
): Promise<{ readonly port: number; readonly server: Server }> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  return { port: address.port, server }
}

export async function close(server: Server): Promise<void> {
  await new Promise((resolve) => server.close(resolve))
}

/**
 * Below ip_local_port_range of Linux's default (32768) and below the node ports (30000): the kernel gives these ports to no program that
 * asks for any port, and to no connection.
 */
const [firstPort, lastPort] = [20_000, 29_999] as const

/**
 * A port on which nothing listens, and that stays so: no other call gets it, in any test process of this network namespace. The process
 * holds a name for the port, an abstract Unix socket, to its end.
 */
export async function freePort(): Promise<number> {
  for (let port = firstPort; port <= lastPort; port++) {
    const name = await listening({ path: `\0viaduct-test-port-${port}` })
    if (name === undefined) continue
    name.unref()
    const server = await listening({ port })
    if (server === undefined) continue
    await close(server)
    return port
  }
  throw new Error(`each port from ${firstPort} to ${lastPort} is in use`)
}

/** undefined: the place is in use. */
async function listening(place: ListenOptions): Promise<Server | undefined> {
  const server = createServer().listen(place)
  try {
    await once(server, 'listening')
    return server
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return undefined
    throw error
  }
}

/**
 * Resolves when this process has read and handled all data that was sent before over its loopback connections. The kernel delivers at
 * once, and each turn of the event loop reads every readable socket, so an echo does not return before the other sockets are read. The
 * second round trip leaves whole turns for the work that follows from reading.
 */
export async function settledSockets(): Promise<void> {
  const { port, server } = await occupy()
  server.on('connection', (socket) => socket.pipe(socket))
  const socket = await connected(port)
  for (let round = 0; round < 2; round++) {
    socket.write('x')
    await once(socket, 'data')
  }
  socket.destroy()
  await close(server)
}

/** Only broken runs reach this limit. They fail with the name of the test instead of hanging. */
const hangMs = 60_000

/** Lets the event loop turn until the condition holds. */
export async function until(isSo: () => boolean): Promise<void> {
  const limit = performance.now() + hangMs
  while (!isSo()) {
    if (performance.now() > limit) throw new Error(`after ${hangMs} ms not yet: ${String(isSo)}`)
    await setImmediate()
  }
}
