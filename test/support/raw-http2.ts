// The server's side of one HTTP/2 request, frame by frame (RFC 9113): Node's server ends a stream before it resets it.
import { once } from 'node:events'
import { createServer, type TLSSocket } from 'node:tls'
import type { Certificate } from './certificates.js'

const types = { data: 0, headers: 1, reset: 3, settings: 4, goAway: 7 } as const
const [endHeaders, acknowledged] = [4, 1]
const prefaceBytes = 24
const headBytes = 9

export interface RawServer {
  readonly port: number
  close(): void
}

/** Answers each first request of a connection with the start of a JSON body, and calls `go` with the socket for what follows. */
export async function startRawServer(
  certificate: Certificate,
  go: (socket: TLSSocket) => void,
): Promise<RawServer> {
  const sockets = new Set<TLSSocket>()
  const server = createServer({ ...certificate, ALPNProtocols: ['h2'] }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.write(Buffer.concat([frame(types.settings, 0, 0), frame(types.settings, acknowledged, 0)]))
    let came: Buffer = Buffer.alloc(0)
    socket.on('data', (part: Buffer) => {
      came = Buffer.concat([came, part])
      if (!hasHeaders(came.subarray(prefaceBytes))) return
      came = Buffer.alloc(0)
      // HPACK: `:status: 200`, and `content-type` with a text.
      const type = Buffer.from('application/json')
      const headers = Buffer.concat([Buffer.from([0x88, 0x5f, type.length]), type])
      socket.write(frame(types.headers, endHeaders, 1, headers))
      socket.write(frame(types.data, 0, 1, Buffer.from('{}')))
      go(socket)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen')
  return {
    port: address.port,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** RST_STREAM for the request. */
export function reset(code: number): Buffer {
  return frame(types.reset, 0, 1, number(code))
}

/** GOAWAY after the request. */
export function goAway(code: number): Buffer {
  return frame(types.goAway, 0, 0, Buffer.concat([number(1), number(code)]))
}

function hasHeaders(bytes: Buffer): boolean {
  for (let at = 0; at + headBytes <= bytes.length; at += headBytes + bytes.readUIntBE(at, 3))
    if (bytes[at + 3] === types.headers) return true
  return false
}

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
