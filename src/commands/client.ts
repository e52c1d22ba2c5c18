// The client of the control socket.
import { statSync } from 'node:fs'
import { connect } from 'node:net'
import { controlApi, controlHeaders, maxSocketPathBytes } from '../control-socket.js'
import type { Snapshots } from '../inspect/index.js'
import { buildText, commit, version } from '../version.js'
import { type Answer, CommandError } from './command.js'
import { knownOf, type Shape, snapshotShapes } from './shapes.js'

type Parameters = Readonly<Record<string, string>>

/** Longest time without a byte from the agent. */
const longestSilenceMs = 20_000

/** The end of a list in JSON. */
const listEnd = '\n]}\n'

/** Asks the agent for whole replies. Throws CommandError as `AgentClient`, and if a reply lacks what this version has. */
export function askingAt(
  socket: string,
): <Name extends keyof Snapshots>(name: Name, parameters?: Parameters) => Promise<Snapshots[Name]> {
  const client = new AgentClient(socket)
  return async (name, parameters) => await client.askWhole(name, parameters)
}

/** The agent behind a control socket, as one command asks it. */
export class AgentClient {
  readonly #socket: string
  readonly #onOtherVersion: (sentence: string) => void
  #isReported = false

  /** `onOtherVersion`: called once, with one sentence, when a reply is that of another version of the control API. */
  constructor(socket: string, onOtherVersion: (sentence: string) => void = () => undefined) {
    this.#socket = socket
    this.#onOtherVersion = onOtherVersion
  }

  /** The JSON value of `/v1/NAME?PARAMETERS`. Throws CommandError if no agent answers, or it refuses. */
  async ask<Name extends keyof Snapshots>(name: Name, parameters: Parameters = {}): Promise<Answer<Name>> {
    const { answer } = await this.#ask(name, parameters)
    return answer
  }

  /** As `ask`, for a command that needs all of the reply. Throws CommandError if a part is missing. */
  async askWhole<Name extends keyof Snapshots>(
    name: Name,
    parameters: Parameters = {},
  ): Promise<Snapshots[Name]> {
    const { answer, missing, reply } = await this.#ask(name, parameters)
    if (missing.length > 0)
      throw new CommandError(
        3,
        `${await this.#sentence(reply)}; the reply to /v1/${name} lacks ${missing.slice(0, 3).join(', ')}`,
      )
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nothing of the type is missing
    return answer.known as unknown as Snapshots[Name]
  }

  /** The bytes of a table of the agent, without the NUL character at their end. Throws as `ask`. */
  async readTable(name: string, parameters: Parameters = {}): Promise<Buffer> {
    const { body } = await this.#get(`tables/${name}`, parameters)
    if (body.at(-1) !== 0) throw incomplete(this.#socket)
    return body.subarray(0, -1)
  }

  /** The bytes of a list in JSON, one row per line; agents before number 1 of the control API may send one line. Throws as `ask`. */
  async readList(name: string, parameters: Parameters = {}): Promise<Buffer> {
    const { body } = await this.#get(name, parameters)
    if (body.toString('latin1', Math.max(0, body.length - listEnd.length)) !== listEnd)
      valueOf(body.toString(), this.#socket)
    return body
  }

  /** The value of a list, with all that the agent sent. Throws as `ask`. */
  async readListValue(name: string, parameters: Parameters = {}): Promise<unknown> {
    return valueOf((await this.readList(name, parameters)).toString(), this.#socket)
  }

  async #ask<Name extends keyof Snapshots>(
    name: Name,
    parameters: Parameters,
  ): Promise<{
    readonly answer: Answer<Name>
    readonly missing: readonly string[]
    readonly reply: HttpReply
  }> {
    const reply = await this.#get(name, parameters)
    const value = valueOf(reply.body.toString(), this.#socket)
    const missing: string[] = []
    const shapes: Readonly<Record<keyof Snapshots, Shape>> = snapshotShapes
    const known = knownOf(value, shapes[name], missing) ?? {}
    if (missing.length > 0) await this.#report(reply)
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the type of the shape is that of the snapshot
    return { answer: { value, known: known as Answer<Name>['known'] }, missing, reply }
  }

  async #get(name: string, parameters: Parameters): Promise<HttpReply> {
    const target = targetOf(name, parameters)
    const reply = await getReply(this.#socket, target)
    if (reply.status !== 200) throw await this.#refusal(reply, target)
    if (apiOf(reply) !== controlApi) await this.#report(reply)
    return reply
  }

  /** The error for a reply that is not 200. */
  async #refusal(reply: HttpReply, target: string): Promise<CommandError> {
    const { status, body } = reply
    const sentence = errorOf(body.toString())
    if (status >= 500)
      return new CommandError(1, sentence ?? 'the agent could not answer: its log has the reason')
    if (sentence !== undefined) return new CommandError(status === 400 ? 2 : 1, sentence)
    const path = target.replace(/\?.*/u, '')
    return new CommandError(3, `${await this.#sentence(reply)}; it does not know ${path}`)
  }

  async #report(reply: HttpReply): Promise<void> {
    if (this.#isReported) return
    this.#isReported = true
    this.#onOtherVersion(`${await this.#sentence(reply)}; until then, - stands for what its replies lack`)
  }

  /** `the agent is 0.2.0 (commit …), this command is 0.3.0 (commit …): restart the agent`. */
  async #sentence(reply: HttpReply): Promise<string> {
    const agent = reply.header(controlHeaders.build) ?? (await this.#buildInStatus())
    const own = buildText({ version, commit })
    const remedy = apiOf(reply) > controlApi ? "run the command of the agent's version" : 'restart the agent'
    return `the agent is ${agent}, this command is ${own}: ${remedy}`
  }

  /** The build of an agent whose replies do not name it. */
  async #buildInStatus(): Promise<string> {
    try {
      const { body } = await getReply(this.#socket, targetOf('status', {}))
      const value: unknown = JSON.parse(body.toString())
      const [seen, made] = [partOf(value, 'version'), partOf(value, 'commit')]
      return seen === undefined ? 'of another version' : buildText({ version: seen, commit: made })
    } catch {
      return 'of another version'
    }
  }
}

/** 0: the agent is older than the number. */
function apiOf(reply: HttpReply): number {
  return Number(reply.header(controlHeaders.api) ?? 0)
}

async function getReply(socket: string, target: string): Promise<HttpReply> {
  // NB: Node cuts a longer path, and would connect to another socket (sockaddr_un.sun_path, unix(7)).
  const length = Buffer.byteLength(socket)
  if (length === 0 || length > maxSocketPathBytes)
    throw new CommandError(
      2,
      `--socket: the path of a socket has 1 to ${maxSocketPathBytes} bytes, and this one ${length}`,
    )
  return await explained(socket, async () => await getOverSocket(socket, target, longestSilenceMs))
}

function targetOf(name: string, parameters: Parameters): string {
  const query = new URLSearchParams(parameters).toString()
  return `/v1/${name}${query === '' ? '' : `?${query}`}`
}

/** Throws CommandError if the text ends early: a long reply has no length. */
function valueOf(body: string, socket: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    throw incomplete(socket)
  }
}

function incomplete(socket: string): CommandError {
  return new CommandError(3, `the reply of the agent of ${socket} is incomplete: run the command again`)
}

/** A member of a JSON object; undefined: the value is no object with such a text. */
function partOf(value: unknown, name: string): string | undefined {
  const part: unknown = Reflect.get(Object(value), name)
  return typeof part === 'string' ? part : undefined
}

/** The member `error` of a JSON object; undefined: the body is no such object. */
function errorOf(body: string): string | undefined {
  try {
    return partOf(JSON.parse(body), 'error')
  } catch {
    return undefined
  }
}

/** Throws CommandError in place of an error of the connection. */
async function explained<T>(socket: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error)) throw error
    throw new CommandError(3, reasonOf(error, socket))
  }
}

/** Linux refuses a connection to a file of another kind as it refuses one to a socket without a listener. */
function isOtherFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isSocket() === false
}

/** One sentence: why the agent does not answer, and the remedy. */
function reasonOf(error: Error, socket: string): string {
  const code = 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
      return `no agent listens on ${socket}: start it, or name its socket with --socket (its flag is --control-socket)`
    case 'ECONNREFUSED':
      if (isOtherFile(socket)) return `${socket} is no socket: name the agent's with --socket`
      return `the agent of ${socket} has ended: start it again`
    case 'EACCES':
      return `no permission for ${socket}: run the command as root`
    case 'ECONNRESET':
    case 'EPIPE':
      return `the agent of ${socket} closed the connection: run the command as root or as the agent's user`
    case 'ETIMEDOUT':
      return `the agent of ${socket} does not answer: ${error.message}; it may be stopped or very busy`
    default:
      return `no answer on ${socket}: ${error.message}`
  }
}

// A GET request over a Unix socket. Loading node:http would take a sixth of a command's time.

/** A reply of the server. */
interface HttpReply {
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
function parseReply(bytes: Buffer): HttpReply {
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
