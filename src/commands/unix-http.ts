// A GET request over a Unix socket. Loading node:http would take a sixth of a command's time.
import { connect } from 'node:net'

/** A reply of the server. */
export interface HttpReply {
  readonly status: number
  readonly body: string
}

/** A reply that is still on its way. */
export interface OpenReply {
  readonly status: number
  /** Texts of whole lines. Rejects as `getOverSocket`. */
  readonly body: AsyncIterable<string>
}

/** Longest head of a reply, and largest reply. Both in bytes. */
const headLimit = 16 * 1024
const replyLimit = 256 * 1024 * 1024
const headEnd = '\r\n\r\n'
const newline = 0x0a

/**
 * Sends a GET request as HTTP/1.0, so that the end of the connection ends the reply (RFC 1945, 7.2.2).
 * Rejects with the system's error; with ECONNRESET, if the server closes the connection without a reply; and with a sentence, if the
 * reply is no HTTP, is shorter or longer than its Content-Length, or too large, or no byte comes for `silenceMs`.
 */
export async function getOverSocket(path: string, target: string, silenceMs: number): Promise<HttpReply> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of chunksOverSocket(path, target, silenceMs)) {
    chunks.push(chunk)
    size += chunk.length
    if (size > replyLimit) throw new Error(`the reply is larger than ${replyLimit} bytes`)
  }
  return parseReply(Buffer.concat(chunks, size))
}

/** As `getOverSocket`, but resolves when the head has arrived, and the reply may have any size. It must have no Content-Length. */
export async function openOverSocket(path: string, target: string, silenceMs: number): Promise<OpenReply> {
  const chunks = chunksOverSocket(path, target, silenceMs)
  let bytes: Buffer = Buffer.alloc(0)
  while (bytes.length < headLimit && !bytes.includes(headEnd)) {
    const { done, value } = await chunks.next()
    if (done === true) break
    bytes = Buffer.concat([bytes, value])
  }
  const { status, length } = parseHead(bytes)
  return { status, body: wholeLines(bytes.subarray(length), chunks) }
}

/** Cuts the bytes after the last newline of each chunk, and passes them with the next one. */
async function* wholeLines(first: Buffer, chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = first
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(newline) + 1
    if (end > 0) yield rest.toString() + chunk.toString('utf8', 0, end)
    rest = end > 0 ? chunk.subarray(end) : Buffer.concat([rest, chunk])
  }
  if (rest.length > 0) yield rest.toString()
}

async function* chunksOverSocket(path: string, target: string, silenceMs: number): AsyncGenerator<Buffer> {
  const socket = connect(path)
  socket.setTimeout(silenceMs, () => socket.destroy(new Error(`no answer within ${silenceMs / 1000} s`)))
  socket.write(`GET ${target} HTTP/1.0\r\nHost: agent\r\n\r\n`)
  let isEmpty = true
  for await (const chunk of socket) {
    isEmpty = false
    yield chunk
  }
  if (isEmpty) throw Object.assign(new Error('no reply'), { code: 'ECONNRESET' })
}

/** Reads a whole reply. Throws Error if it is no HTTP, or shorter than its head says. */
export function parseReply(bytes: Buffer): HttpReply {
  const { status, contentLength, length } = parseHead(bytes)
  const body = bytes.subarray(length)
  if (contentLength !== undefined && body.length !== contentLength)
    throw new Error(`the reply has ${body.length} bytes, and its head says ${contentLength}`)
  return { status, body: body.toString() }
}

interface Head {
  readonly status: number
  readonly contentLength: number | undefined
  /** Bytes of the head itself. */
  readonly length: number
}

/** Throws Error if the bytes do not begin with a whole head. */
function parseHead(bytes: Buffer): Head {
  const end = bytes.subarray(0, headLimit).indexOf(headEnd)
  const head = end === -1 ? '' : bytes.toString('latin1', 0, end)
  const status = /^HTTP\/1\.[01] (?<code>\d{3})(?: |$)/mu.exec(head)?.groups?.['code']
  if (status === undefined) throw new Error('the reply is no HTTP')
  const length = /^content-length: *(?<bytes>\d+) *$/imu.exec(head)?.groups?.['bytes']
  return {
    status: Number(status),
    contentLength: length === undefined ? undefined : Number(length),
    length: end + headEnd.length,
  }
}
