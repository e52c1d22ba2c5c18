// The client of the control socket.
import type { IncomingMessage } from 'node:http'
import { type Ask, CommandError } from './command.js'

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
  if (status === 200) return JSON.parse(body)
  const sentence = errorOf(body)
  if (status >= 500)
    throw new CommandError(1, sentence ?? 'the agent could not answer: its log has the reason')
  if (sentence === undefined)
    throw new CommandError(3, `the agent does not know /v1/${name}: it may be of another version`)
  throw new CommandError(status === 400 ? 2 : 1, sentence)
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

async function get(
  socketPath: string,
  path: string,
): Promise<{ readonly status: number; readonly body: string }> {
  // NB: loaded here, because --help and completion need no HTTP.
  const { request } = await import('node:http')
  return await new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(new CommandError(3, reasonOf(error, socketPath)))
    const sent = request({ socketPath, path, agent: false, timeout: silenceMs }, (response) => {
      readBody(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), fail)
    })
    sent.on('timeout', () => sent.destroy(new Error(`no answer within ${silenceMs / 1000} s`)))
    sent.on('error', fail)
    sent.end()
  })
}

async function readBody(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
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
