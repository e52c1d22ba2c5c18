// One of the agent's own servers, on a configured address (F-099).
import type { RequestListener, Server } from 'node:http'
import { formatEndpoint, parseIpAddress } from '../address.js'
import { ConfigError } from '../errors.js'
import { type Log, StateReporter } from '../log.js'
import type { Clock } from '../clock.js'
import { connectionLimit, Connections, createHttpServer, type HttpLimits, listen } from './http-server.js'
import { Turns } from './turns.js'

/** An address without brackets, and a port; 0: any free port. */
interface Place {
  readonly host: string
  readonly port: number
}

export interface BoundServerOptions {
  readonly name: 'healthz' | 'metrics'
  readonly address: Place
  readonly reply: RequestListener
  /** The agent ends if the first attempt to listen fails. */
  readonly isHardFail: boolean
  /** Called with that error before it is thrown. */
  readonly onHardFail: (problem: Error) => void
  readonly clock: Pick<Clock, 'now' | 'schedule'>
  /** From `openListenProblems`. */
  readonly problems: StateReporter
  /** Receives one line each time the server begins to listen. */
  readonly log: Pick<Log, 'debug'>
  /** Default: `httpLimits`. */
  readonly limits?: HttpLimits
}

const retryMs = 5000

/** Error codes of listen() on a machine without IPv6. */
const withoutIpv6: readonly unknown[] = ['EAFNOSUPPORT', 'EADDRNOTAVAIL', 'EINVAL']

/** Reports servers that cannot listen. */
export function openListenProblems(log: Log): StateReporter {
  return new StateReporter({
    log,
    level: 'error',
    problemLine: 'Server cannot listen',
    recovery: 'Server listens now',
  })
}

/** Listens, and retries every 5 s while it cannot. Reports each change between the two. */
export class BoundServer {
  readonly #options: BoundServerOptions
  readonly #connections: Connections
  #server: Server | undefined
  #work: Promise<unknown> = Promise.resolve()
  #cancelRetry: () => void = () => {}
  #isStopped = false

  constructor(options: BoundServerOptions) {
    this.#options = options
    this.#connections = new Connections(connectionLimit, new Turns(options))
  }

  /** Resolves after the first attempt. Throws ConfigError if the attempt fails and `isHardFail` is set. */
  async start(): Promise<void> {
    const problem = await this.#try()
    if (problem === undefined) return
    const { name, isHardFail, onHardFail } = this.#options
    if (!isHardFail) return this.#retryLater(problem)
    onHardFail(problem)
    const advice = 'free the address, choose another, or remove --bind-address-hard-fail'
    throw new ConfigError(`${name}-bind-address`, `${problem.message}: ${advice}`)
  }

  /** The address on which it listens; undefined: it does not listen. */
  get address(): Place | undefined {
    const address = this.#server?.address()
    return typeof address === 'object' && address !== null
      ? { host: address.address, port: address.port }
      : undefined
  }

  get connectionCount(): number {
    return this.#connections.size
  }

  /** Stops listening and closes every connection. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelRetry()
    await this.#work
    const server = this.#server
    if (server === undefined) return
    this.#server = undefined
    await new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
  }

  /** Resolves with the error; undefined: the server listens, or is stopped. */
  async #try(): Promise<Error | undefined> {
    const attempt = this.#open()
    this.#work = attempt
    return await attempt
  }

  async #open(): Promise<Error | undefined> {
    const server = await createHttpServer({ ...this.#options, connections: this.#connections })
    if (this.#isStopped) return undefined
    try {
      await this.#listen(server)
    } catch (error) {
      if (error instanceof Error) return error
      throw error
    }
    this.#server = server
    server.on('error', (error) => this.#reopen(server, error))
    this.#listens()
    return undefined
  }

  #listens(): void {
    const { name, log, problems } = this.#options
    problems.report(name, undefined)
    const address = this.address
    if (address !== undefined)
      log.debug(`${name} server listens`, { server: name, address: placeOf(address) })
  }

  /** As in Go: the unspecified address of one family means all addresses of both families. */
  async #listen(server: Server): Promise<void> {
    const { host, port } = this.#options.address
    const isAny = host === '0.0.0.0' || host === '::'
    if (!isAny) return await listen(server, { host, port, ipv6Only: false })
    try {
      await listen(server, { host: '::', port, ipv6Only: false })
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && withoutIpv6.includes(error.code))) throw error
      await listen(server, { host: '0.0.0.0', port, ipv6Only: false })
    }
  }

  /** Closes a broken listener and retries. */
  #reopen(server: Server, error: Error): void {
    if (this.#server !== server) return
    this.#server = undefined
    server.close()
    server.closeAllConnections()
    this.#retryLater(error)
  }

  #retryLater(problem: Error): void {
    const { name, address, clock, problems } = this.#options
    if (this.#isStopped) return
    const place = placeOf(address)
    problems.report(name, {
      text: `${name} server on ${place}: ${problem.message}; retry every ${retryMs / 1000} s`,
      fields: { server: name, address: place },
    })
    this.#cancelRetry = clock.schedule(retryMs, () => {
      void this.#try().then((again) => {
        if (again !== undefined) this.#retryLater(again)
      })
    })
  }
}

function placeOf({ host, port }: Place): string {
  const address = parseIpAddress(host)
  return address === undefined ? `${host}:${port}` : formatEndpoint(address, port)
}
