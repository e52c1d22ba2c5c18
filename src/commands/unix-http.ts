// A GET request over a Unix socket. Loading node:http would take a sixth of a command's time.
import { connect } from 'node:net'

/** A reply of the server. */
export interface HttpReply {
  readonly status: number
  readonly body: Buffer
  /** The value of a header; undefined: the reply does not have it. */
  readonly header: (name: string) => string | undefined
}

/** Longest head of a reply, and largest reply. Both in bytes. */
const headLimit = 16 * 1024
const replyLimit = 1024 * 1024 * 1024
const headEnd = '\r\n\r\n'

/**
 * Sends a GET request as HTTP/1.0, so that the end of the connection ends the reply (RFC 1945, 7.2.2).
 * Rejects with the system's error; with ECONNRESET, if the server closes the connection without a reply; and with a sentence, if the
 * reply is no HTTP, is shorter or longer than its Content-Length, or too large. ETIMEDOUT: no byte came for `silenceMs`.
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

async function* chunksOverSocket(path: string, target: string, silenceMs: number): AsyncGenerator<Buffer> {
  const socket = connect(path)
  socket.setTimeout(silenceMs, () => {
    const error = new Error(`no byte within ${silenceMs / 1000} s`)
    socket.destroy(Object.assign(error, { code: 'ETIMEDOUT' }))
  })
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
  const { status, header, length } = parseHead(bytes)
  const contentLength = header('content-length')
  const body = bytes.subarray(length)
  if (contentLength !== undefined && body.length !== Number(contentLength))
    throw new Error(`the reply has ${body.length} bytes, and its head says ${contentLength}`)
  return { status, body, header }
}

interface Head {
  readonly status: number
  readonly header: HttpReply['header']
  /** Bytes of the head itself. */
  readonly length: number
}

/** Throws Error if the bytes do not begin with a whole head. */
function parseHead(bytes: Buffer): Head {
  const end = bytes.subarray(0, headLimit).indexOf(headEnd)
  const head = end === -1 ? '' : bytes.toString('latin1', 0, end)
  const status = /^HTTP\/1\.[01] (?<code>\d{3})(?: |$)/mu.exec(head)?.groups?.['code']
  if (status === undefined) throw new Error('the reply is no HTTP')
  const fields = new Map(
    [...head.matchAll(/^(?<name>[\w-]+): *(?<value>.*?) *$/gmu)].map(
      ({ groups: { name = '', value = '' } = {} }) => [name.toLowerCase(), value] as const,
    ),
  )
  return {
    status: Number(status),
    header: (name) => fields.get(name.toLowerCase()),
    length: end + headEnd.length,
  }
}
