// A GET request over a Unix socket. Loading node:http would take a sixth of a command's time.
import { connect } from 'node:net'

/** A reply of the server. */
export interface HttpReply {
  readonly status: number
  readonly body: string
}

/** Longest head of a reply, and largest reply. Both in bytes. */
const headLimit = 16 * 1024
const replyLimit = 256 * 1024 * 1024

/**
 * Sends a GET request as HTTP/1.0, so that the end of the connection ends the reply (RFC 1945, 7.2.2).
 * Rejects with the system's error; with ECONNRESET, if the server closes the connection without a reply; and with a sentence, if the
 * reply is no HTTP, is shorter or longer than its Content-Length, or too large, or no byte comes for `silenceMs`.
 */
export async function getOverSocket(path: string, target: string, silenceMs: number): Promise<HttpReply> {
  const chunks: Buffer[] = []
  let size = 0
  await new Promise<void>((resolve, reject) => {
    const socket = connect(path)
    socket.setTimeout(silenceMs, () => socket.destroy(new Error(`no answer within ${silenceMs / 1000} s`)))
    socket.on('connect', () => socket.write(`GET ${target} HTTP/1.0\r\nHost: agent\r\n\r\n`))
    socket.on('data', (chunk) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > replyLimit) socket.destroy(new Error(`the reply is larger than ${replyLimit} bytes`))
    })
    socket.on('end', resolve)
    socket.on('error', reject)
  })
  if (size === 0) throw Object.assign(new Error('no reply'), { code: 'ECONNRESET' })
  return parseReply(Buffer.concat(chunks, size))
}

/** Reads a whole reply. Throws Error if it is no HTTP, or shorter than its head says. */
export function parseReply(bytes: Buffer): HttpReply {
  const end = bytes.subarray(0, headLimit).indexOf('\r\n\r\n')
  const head = end === -1 ? '' : bytes.toString('latin1', 0, end)
  const status = /^HTTP\/1\.[01] (?<code>\d{3})(?: |$)/mu.exec(head)?.groups?.['code']
  if (status === undefined) throw new Error('the reply is no HTTP')
  const length = /^content-length: *(?<bytes>\d+) *$/imu.exec(head)?.groups?.['bytes']
  const body = bytes.subarray(end + 4)
  if (length !== undefined && body.length !== Number(length))
    throw new Error(`the reply has ${body.length} bytes, and its head says ${length}`)
  return { status: Number(status), body: body.toString() }
}
