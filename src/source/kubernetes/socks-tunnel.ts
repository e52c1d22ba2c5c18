// The way to a server by way of a SOCKS proxy, version 5 (RFC 1928), with user name and password (RFC 1929).
import { connect, type Socket } from 'node:net'
import { parseIpAddress, writeAddress } from '../../address.js'
import { answerDeadlineMs } from './client-options.js'
import { proxyHost, proxyLogin } from './proxy-url.js'

export interface Target {
  /** A name, which the proxy looks up, or an address without brackets. */
  readonly host: string
  readonly port: number
}

const version = 5
const methods = { none: 0, password: 2 }
const defaultPort = 1080

/** Replies that refuse the connection (RFC 1928, section 6). */
const refusals: Readonly<Record<number, string>> = {
  1: 'general failure',
  2: 'not allowed by its rules',
  3: 'network unreachable',
  4: 'host unreachable',
  5: 'connection refused',
  6: 'time to live exceeded',
  7: 'command not supported',
  8: 'type of address not supported',
}

/** Opens a connection to `target` through `proxy`. Rejects with an error that names the proxy where that refuses. */
export async function openSocksTunnel(proxy: URL, target: Target): Promise<Socket> {
  const socket = connect({
    host: proxyHost(proxy),
    port: proxy.port === '' ? defaultPort : Number(proxy.port),
  })
  const failure = (problem: string): Error => new Error(`the proxy ${proxy.host} ${problem}`)
  const failed = new Promise<never>((_resolve, reject) => {
    socket.once('error', reject).once('end', () => reject(failure('ends the connection')))
    // Before the request is given up, whose error does not name the proxy.
    socket.setTimeout(answerDeadlineMs - 1000).once('timeout', () => reject(failure('does not answer')))
  })
  const replies = new Replies(socket)
  try {
    const problem = await Promise.race([negotiate(socket, replies, { proxy, target }), failed])
    if (problem !== undefined) throw failure(problem)
  } catch (error) {
    socket.destroy()
    throw error
  }
  replies.end()
  return socket.setTimeout(0)
}

/** Resolves with what the proxy has against the connection; undefined: it is there. */
async function negotiate(
  socket: Socket,
  replies: Replies,
  { proxy, target: { host, port } }: { readonly proxy: URL; readonly target: Target },
): Promise<string | undefined> {
  const login = proxyLogin(proxy)
  const offered = login === undefined ? [methods.none] : [methods.none, methods.password]
  socket.write(Buffer.from([version, offered.length, ...offered]))
  const [answered, method] = await replies.take(2)
  if (answered !== version) return 'does not speak SOCKS 5'
  if (method === methods.password && login !== undefined) {
    socket.write(Buffer.from([1, ...textBytes(login.username), ...textBytes(login.password)]))
    const [, status] = await replies.take(2)
    if (status !== 0) return 'refuses the login of its URL'
  } else if (method !== methods.none) return 'wants another login than its URL has'
  socket.write(Buffer.from([version, 1, 0, ...addressBytes(host), port >>> 8, port & 0xff]))
  const [, reply = 0, , type] = await replies.take(4)
  if (reply !== 0) return `does not connect to ${host}: ${refusals[reply] ?? `reply ${reply}`}`
  // The address that the proxy connects from, and its port.
  const length = type === 1 ? 4 : type === 4 ? 16 : ((await replies.take(1))[0] ?? 0)
  await replies.take(length + 2)
  return undefined
}

/** What the proxy says, by number of bytes. */
class Replies {
  readonly #socket: Socket
  #bytes: Buffer = Buffer.alloc(0)
  #wake: () => void = () => undefined
  readonly #take = (data: Buffer): void => {
    this.#bytes = Buffer.concat([this.#bytes, data])
    this.#wake()
  }

  constructor(socket: Socket) {
    this.#socket = socket.on('data', this.#take)
  }

  /** The next bytes; never resolves where they do not come. */
  async take(count: number): Promise<Buffer> {
    while (this.#bytes.length < count) await new Promise<void>((resolve) => (this.#wake = resolve))
    const taken = this.#bytes.subarray(0, count)
    this.#bytes = this.#bytes.subarray(count)
    return taken
  }

  /** NB: without a pause, which the next reader would have to end; the server says nothing before it is asked. */
  end(): void {
    this.#socket.off('data', this.#take)
  }
}

/** Type and address (RFC 1928, section 5). */
function addressBytes(host: string): readonly number[] {
  const address = parseIpAddress(host)
  if (address === undefined) return [3, ...textBytes(host)]
  const bytes = new Uint8Array(16)
  return writeAddress(address, bytes, 0) === 'ipv4' ? [1, ...bytes.subarray(0, 4)] : [4, ...bytes]
}

/** After their number, which is one byte. */
function textBytes(text: string): readonly number[] {
  const bytes = Buffer.from(text).subarray(0, 255)
  return [bytes.length, ...bytes]
}
