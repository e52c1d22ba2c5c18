// The control socket: HTTP on a Unix socket for processes of root or of the agent's own user.
import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, rename, unlink } from 'node:fs/promises'
import type { RequestListener, Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import type { Clock } from '../clock.js'
import { controlApi, controlHeaders, maxSocketPathBytes } from '../control-socket.js'
import { BugError, KernelError } from '../errors.js'
import type { Kernel } from '../kernel/index.js'
import { type Log, StateReporter } from '../log.js'
import {
  answering,
  Connections,
  createHttpServer,
  type HttpLimits,
  listen,
  type Pages,
  Turns,
} from '../server/index.js'
import { type Build, buildText } from '../version.js'

interface ControlServerOptions {
  /** The socket's file. Its folder is made if it is absent. */
  readonly path: string
  readonly pages: Pages
  readonly kernel: Pick<Kernel, 'peerCredentials'>
  /** The user of this process. */
  readonly ownUid: number
  readonly clock: Pick<Clock, 'now' | 'schedule' | 'every'>
  readonly log: Log
  /** The build of this agent. */
  readonly build: Build
  /** Default: those of the other servers. */
  readonly limits?: HttpLimits
}

/** Operators are few. A further connection closes the one without a request for the longest time. */
const connectionLimit = 16
const retryMs = 5000
/** Time between two looks at the socket's file. */
const lookMs = 5000

/** A file, regardless of its name. */
interface FileIdentity {
  readonly dev: number
  readonly ino: number
}

/**
 * Listens, and retries every 5 s while it cannot. It makes the socket's file again when another program has removed or replaced it. A
 * problem of the socket never ends the agent.
 */
export class ControlServer {
  readonly #options: ControlServerOptions
  readonly #problems: StateReporter
  readonly #pageProblems: StateReporter
  #server: Server | undefined
  /** The socket's file while the server listens. */
  #file: FileIdentity | undefined
  #work: Promise<void> = Promise.resolve()
  #cancelRetry: () => void = () => {}
  #cancelLooks: () => void = () => {}
  #isStopped = false

  constructor(options: ControlServerOptions) {
    this.#options = options
    this.#problems = new StateReporter({
      log: options.log,
      level: 'warn',
      problemLine: 'Control socket is not available',
      recovery: 'Control socket is available',
    })
    this.#pageProblems = new StateReporter({
      log: options.log,
      level: 'error',
      problemLine: 'Page of the control socket failed',
      recovery: 'Page of the control socket works again',
    })
  }

  /** Resolves after the first attempt. */
  async start(): Promise<void> {
    this.#cancelLooks = this.#options.clock.every(lookMs, () => this.#look())
    this.#work = this.#try()
    await this.#work
  }

  /** Stops listening, removes the socket's file unless another program has replaced it, and closes every connection. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelRetry()
    this.#cancelLooks()
    await this.#work
    const server = this.#server
    if (server === undefined) return
    this.#server = undefined
    // A file that stays is harmless: the next agent replaces it.
    if (await this.#hasFile()) await unlink(this.#options.path).catch(() => undefined)
    await new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
  }

  async #try(): Promise<void> {
    const { path } = this.#options
    try {
      await this.#open()
      this.#problems.report(path, undefined)
    } catch (error) {
      if (!(error instanceof Error) || error instanceof BugError) throw error
      this.#retryLater(error)
    }
  }

  #look(): void {
    if (this.#server !== undefined) this.#work = this.#work.then(async () => await this.#lookAtFile())
  }

  async #lookAtFile(): Promise<void> {
    const { path: file, log } = this.#options
    const server = this.#server
    if (server === undefined || (await this.#hasFile()) || this.#isStopped) return
    // Its failure has scheduled a retry meanwhile.
    if (this.#server !== server) return
    log.warn('Control socket was removed or replaced, and is made again', { file })
    this.#server = undefined
    closeNow(server)
    await this.#try()
  }

  /** Whether the socket's file is the one that this server has made. */
  async #hasFile(): Promise<boolean> {
    const file = await lstat(this.#options.path).catch(() => undefined)
    return file !== undefined && file.dev === this.#file?.dev && file.ino === this.#file.ino
  }

  #retryLater(error: Error): void {
    const { path, clock } = this.#options
    if (this.#isStopped) return
    const text = `${path}: ${error.message}; retry every ${retryMs / 1000} s`
    this.#problems.report(path, { text, fields: { file: path } })
    this.#cancelRetry = clock.schedule(retryMs, () => {
      this.#work = this.#try()
    })
  }

  /** Closes a listener that cannot accept connections any more, and retries. */
  #reopen(server: Server, error: Error): void {
    if (this.#server !== server) return
    this.#server = undefined
    closeNow(server)
    this.#retryLater(error)
  }

  /** Rejects with the system's error if it cannot listen, and with a sentence if another program has the file. */
  async #open(): Promise<void> {
    const { path, pages, clock, log, build, limits } = this.#options
    const length = Buffer.byteLength(path)
    if (length > maxSocketPathBytes)
      throw new Error(
        `the path has ${length} bytes, and that of a socket at most ${maxSocketPathBytes}: set --control-socket`,
      )
    await mkdir(dirname(path), { recursive: true, mode: 0o755 })
    await assertReplaceable(path)
    const server = await createHttpServer({
      reply: withHeaders(build, answering(pages, this.#pageProblems)),
      connections: new Connections(connectionLimit, new Turns({ clock, isOneSource: true })),
      admits: (connection) => this.#admits(connection),
      ...(limits === undefined ? {} : { limits }),
    })
    // The name of the socket gets a file that listens and has its mode already. The temporary name is as short as the length of a
    // socket's path demands.
    const fresh = join(dirname(path), `.${randomBytes(4).toString('hex')}`)
    await listen(server, { path: fresh })
    try {
      await chmod(fresh, 0o600)
      this.#file = await lstat(fresh)
      await rename(fresh, path)
    } catch (error) {
      closeNow(server)
      throw error
    }
    this.#server = server
    server.on('error', (error) => this.#reopen(server, error))
    log.debug('Control socket listens', { file: path })
  }

  /** Whether the process at the other end belongs to root or to the agent's user. */
  #admits(connection: Socket): boolean {
    const { kernel, ownUid, log } = this.#options
    const fd: unknown = Reflect.get(Object(Reflect.get(connection, '_handle')), 'fd')
    if (typeof fd !== 'number' || fd < 0) return false // the connection is closed already
    try {
      const { pid, uid } = kernel.peerCredentials(fd)
      if (uid === 0 || uid === ownUid) return true
      log.debug('Control socket refused a process of another user', { pid, uid })
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      log.debug('Control socket refused a process of unknown user', { err: error })
    }
    return false
  }
}

/** Every reply names the control API and the build, also that of an unknown page. */
function withHeaders(build: Build, reply: RequestListener): RequestListener {
  return (request, response) => {
    response.setHeader(controlHeaders.api, controlApi)
    response.setHeader(controlHeaders.build, buildText(build))
    reply(request, response)
  }
}

function closeNow(server: Server): void {
  server.close()
  server.closeAllConnections()
}

/** Rejects if the file is no socket, or a program listens on it. The socket of an agent that has ended may be replaced. */
async function assertReplaceable(path: string): Promise<void> {
  const file = await lstat(path).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  })
  if (file === undefined) return
  if (!file.isSocket())
    throw new Error('the file exists and is no socket: remove it, or set --control-socket')
  if (await isListening(path))
    throw new Error('another process listens there: stop it, or set --control-socket to another file')
}

async function isListening(path: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const probe = connect(path)
    const settle = (isOpen: boolean): void => {
      probe.destroy()
      resolve(isOpen)
    }
    probe.once('connect', () => settle(true))
    // A full queue of connections (EAGAIN) is a listener too.
    probe.once('error', (error) => settle(!('code' in error) || error.code !== 'ECONNREFUSED'))
  })
}
