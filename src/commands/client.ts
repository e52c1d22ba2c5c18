// The client of the control socket.
import { statSync } from 'node:fs'
import { maxSocketPathBytes } from '../control-socket.js'
import { type Ask, CommandError } from './command.js'
import { getOverSocket } from './unix-http.js'

type Parameters = Readonly<Record<string, string>>

/** Longest time without a byte from the agent. */
const silenceMs = 20_000

/** The client of one control socket. */
export function askingAt(socket: string): Ask {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the agent made the JSON from a value of this type
  return (async (name, parameters) => await askFor(socket, name, parameters)) as Ask
}

/** The JSON value of `/v1/NAME?PARAMETERS`. Throws CommandError. */
async function askFor(socket: string, name: string, parameters: Parameters = {}): Promise<unknown> {
  return valueOf((await bytesAt(socket, name, parameters)).toString(), socket)
}

/** The bytes of `/v1/NAME?PARAMETERS`, which must end with `end`. Throws CommandError as the client of `askingAt`. */
export async function readAt(
  socket: string,
  { name, parameters, end }: { readonly name: string; readonly parameters: Parameters; readonly end: string },
): Promise<Buffer> {
  const bytes = await bytesAt(socket, name, parameters)
  if (bytes.toString('latin1', Math.max(0, bytes.length - end.length)) !== end) throw incomplete(socket)
  return bytes
}

/** The bytes of a list in JSON, one row per line. Throws as `readAt`. */
export async function readListAt(socket: string, name: string, parameters: Parameters = {}): Promise<Buffer> {
  return await readAt(socket, { name, parameters, end: '\n]}\n' })
}

async function bytesAt(socket: string, name: string, parameters: Parameters): Promise<Buffer> {
  // NB: Node cuts a longer path, and would connect to another socket (sockaddr_un.sun_path, unix(7)).
  const length = Buffer.byteLength(socket)
  if (length === 0 || length > maxSocketPathBytes)
    throw new CommandError(
      2,
      `--socket: the path of a socket has 1 to ${maxSocketPathBytes} bytes, and this one ${length}`,
    )
  const target = targetOf(name, parameters)
  const { status, body } = await explained(socket, async () => await getOverSocket(socket, target, silenceMs))
  if (status !== 200) throw refusal(status, body.toString(), target)
  return body
}

function targetOf(name: string, parameters: Parameters): string {
  const query = new URLSearchParams(parameters).toString()
  return `/v1/${name}${query === '' ? '' : `?${query}`}`
}

/** The error for a reply that is not 200. */
function refusal(status: number, body: string, target: string): CommandError {
  const sentence = errorOf(body)
  if (status >= 500)
    return new CommandError(1, sentence ?? 'the agent could not answer: its log has the reason')
  if (sentence === undefined)
    return new CommandError(
      3,
      `the agent does not know ${target.replace(/\?.*/u, '')}: it may be of another version`,
    )
  return new CommandError(status === 400 ? 2 : 1, sentence)
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

/** The member `error` of a JSON object; undefined: the body is no such object. */
function errorOf(body: string): string | undefined {
  try {
    const value: unknown = JSON.parse(body)
    const error: unknown = Reflect.get(Object(value), 'error')
    return typeof error === 'string' ? error : undefined
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
