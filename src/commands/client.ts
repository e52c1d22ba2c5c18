// The client of the control socket.
import { type Ask, CommandError } from './command.js'
import { getOverSocket, type HttpReply } from './unix-http.js'

/** Longest time without a byte from the agent. */
const silenceMs = 20_000

/** The client of one control socket. */
export function askingAt(socket: string): Ask {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the agent made the JSON from a value of this type
  return (async (name, parameters) => await askFor(socket, name, parameters)) as Ask
}

/** The JSON value of `/v1/NAME?PARAMETERS`. Throws CommandError. */
async function askFor(
  socket: string,
  name: string,
  parameters: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  const query = new URLSearchParams(parameters).toString()
  const { status, body } = await get(socket, `/v1/${name}${query === '' ? '' : `?${query}`}`)
  if (status === 200) return valueOf(body, socket)
  const sentence = errorOf(body)
  if (status >= 500)
    throw new CommandError(1, sentence ?? 'the agent could not answer: its log has the reason')
  if (sentence === undefined)
    throw new CommandError(3, `the agent does not know /v1/${name}: it may be of another version`)
  throw new CommandError(status === 400 ? 2 : 1, sentence)
}

/** Throws CommandError if the text ends early: a long reply has no length. */
function valueOf(body: string, socket: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    throw new CommandError(3, `the reply of the agent of ${socket} is incomplete: run the command again`)
  }
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

async function get(socket: string, target: string): Promise<HttpReply> {
  try {
    return await getOverSocket(socket, target, silenceMs)
  } catch (error) {
    if (!(error instanceof Error)) throw error
    throw new CommandError(3, reasonOf(error, socket))
  }
}

/** One sentence: why the agent does not answer, and the remedy. */
function reasonOf(error: Error, socket: string): string {
  const code = 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
      return `no agent listens on ${socket}: start it, or name its socket with --socket (its flag is --control-socket)`
    case 'ECONNREFUSED':
      return `the agent of ${socket} has ended: start it again`
    case 'EACCES':
      return `no permission for ${socket}: run the command as root`
    case 'ECONNRESET':
    case 'EPIPE':
      return `the agent of ${socket} closed the connection: run the command as root or as the agent's user`
    case 'ENOTSOCK':
      return `${socket} is no socket: name the agent's with --socket`
    default:
      return `no answer on ${socket}: ${error.message}`
  }
}
