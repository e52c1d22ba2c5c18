// Health checks of Services (healthCheckNodePort), by which a load balancer finds the nodes with local endpoints (F-018, F-092).
import type { Server, ServerResponse } from 'node:http'
import { formatEndpoint, parseIpAddress, type IpAddress, type IpFamily } from '../address.js'
import { serviceReference } from '../event.js'
import type { Clock } from '../clock.js'
import type { HealthCheckFailure } from '../engine/index.js'
import type { HealthCheck } from '../model/index.js'
import { connectionLimit, Connections, createHttpServer, listen } from './http-server.js'
import { Turns } from './turns.js'

export interface HealthCheckOptions {
  readonly family: IpFamily
  readonly nodeName: string
  /** Whether the data plane of all families is up to date. Called for each request. */
  readonly isHealthy: () => boolean
  readonly clock: Pick<Clock, 'now' | 'schedule'>
}

/** Requests per Service and second: five probers with a period of 5 s. Above 1,000 Services this exceeds the usual limit of Turns. */
const probesPerService = 1

/** The servers of one Service by `address:port`. */
type Listeners = Map<string, Server>

/**
 * The listeners of one IP family. An unchanged listener stays open, so a load balancer sees no gap. The next `sync` retries a listener
 * that cannot be opened.
 */
export class HealthCheckServers {
  readonly #options: HealthCheckOptions
  readonly #listeners = new Map<string, Listeners>()
  /** Servers that accept no more connections and finish their open requests. */
  readonly #closing = new Set<Server>()
  /** Of all Services, so that many Services do not exhaust the process's file descriptors. */
  readonly #connections: Connections
  #desired: ReadonlyMap<string, HealthCheck> = new Map()
  #work: Promise<unknown> = Promise.resolve()
  #isStopped = false

  constructor(options: HealthCheckOptions) {
    this.#options = options
    this.#connections = new Connections(
      connectionLimit,
      new Turns({ clock: options.clock, turnsPerSecond: () => this.#desired.size * probesPerService }),
    )
  }

  /**
   * Makes the listeners equal to `desired` (by `namespace/name`, each with another port) on these addresses, and resolves with the failures. Calls run in
   * order. Replies use the newest `desired` at once.
   */
  async sync(
    desired: ReadonlyMap<string, HealthCheck>,
    addresses: 'all' | readonly IpAddress[],
  ): Promise<readonly HealthCheckFailure[]> {
    this.#desired = desired
    const hosts = addresses === 'all' ? [anyAddress[this.#options.family]] : addresses
    const work = this.#work.then(async () => await this.#change(desired, hosts))
    this.#work = work.catch(() => undefined)
    return await work
  }

  /** Closes every listener and every connection. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#work
    for (const service of this.#listeners.keys()) this.#closeAll(service)
    const closed = [...this.#closing].map(
      async (server) => await new Promise((resolve) => server.once('close', resolve)),
    )
    for (const server of this.#closing) server.closeAllConnections()
    await Promise.all(closed)
  }

  async #change(
    desired: ReadonlyMap<string, HealthCheck>,
    hosts: readonly string[],
  ): Promise<readonly HealthCheckFailure[]> {
    // Close first: the port may belong to another Service now.
    for (const [service, listeners] of this.#listeners) {
      const port = desired.get(service)?.port
      const places = new Set(port === undefined ? [] : hosts.map((host) => placeOf(host, port)))
      for (const place of listeners.keys()) {
        if (!places.has(place)) this.#close(service, place)
      }
    }
    const failures: HealthCheckFailure[] = []
    for (const [service, check] of desired) {
      if (this.#isStopped) return failures
      const problem = await this.#openAll(service, check.port, hosts)
      if (problem !== undefined) failures.push(this.#failureOf(check, problem.message))
    }
    return failures
  }

  /** Opens all addresses or none: a partial health check is misleading. Resolves with the error; undefined: all are open. */
  async #openAll(service: string, port: number, hosts: readonly string[]): Promise<Error | undefined> {
    for (const host of hosts) {
      if (this.#listeners.get(service)?.has(placeOf(host, port)) === true) continue
      try {
        await this.#open(service, host, port)
      } catch (error) {
        this.#closeAll(service)
        if (error instanceof Error) return error
        throw error
      }
    }
    return undefined
  }

  async #open(service: string, host: string, port: number): Promise<void> {
    const server = await createHttpServer({
      reply: (_request, response) => this.#reply(service, response),
      connections: this.#connections,
    })
    await listen(server, { host, port, ipv6Only: this.#options.family === 'ipv6' })
    const place = placeOf(host, port)
    // The next sync opens a broken listener again.
    server.on('error', () => this.#close(service, place))
    const listeners = this.#listeners.get(service) ?? new Map<string, Server>()
    this.#listeners.set(service, listeners.set(place, server))
  }

  /** Frees the port at once. Open requests still get their reply. */
  #close(service: string, place: string): void {
    const listeners = this.#listeners.get(service)
    const server = listeners?.get(place)
    if (listeners === undefined || server === undefined) return
    listeners.delete(place)
    if (listeners.size === 0) this.#listeners.delete(service)
    this.#closing.add(server)
    server.close(() => this.#closing.delete(server))
    server.closeIdleConnections()
  }

  #closeAll(service: string): void {
    for (const place of this.#listeners.get(service)?.keys() ?? []) this.#close(service, place)
  }

  /** Sends the same reply for every path and method (F-092). */
  #reply(service: string, response: ServerResponse): void {
    const check = this.#desired.get(service)
    if (check === undefined) {
      // The Service was deleted meanwhile. kube-proxy's handler then writes nothing.
      response.setHeader('Connection', 'close')
      response.end()
      return
    }
    const isHealthy = this.#options.isHealthy()
    response.statusCode = check.localEndpoints > 0 && isHealthy ? 200 : 503
    response.setHeader('Content-Type', 'application/json')
    response.setHeader('X-Content-Type-Options', 'nosniff')
    response.setHeader('X-Load-Balancing-Endpoint-Weight', String(check.localEndpoints))
    response.end(replyBody(check, isHealthy))
  }

  #failureOf({ namespace, name, port }: HealthCheck, problem: string): HealthCheckFailure {
    const { nodeName } = this.#options
    const service = `${namespace}/${name}`
    const event = {
      type: 'Warning',
      reason: 'FailedToStartServiceHealthcheck',
      action: 'Listen',
      regarding: serviceReference(namespace, name),
      note: `node ${nodeName} failed to start healthcheck "${service}" on port ${port}: ${problem}`,
    } as const
    return { service, event }
  }
}

const anyAddress: Readonly<Record<IpFamily, string>> = { ipv4: '0.0.0.0', ipv6: '::' }

function placeOf(host: string, port: number): string {
  const address = parseIpAddress(host)
  return address === undefined ? `${host}:${port}` : formatEndpoint(address, port)
}

/** The same bytes as kube-proxy's reply: tabs, no newline at the end. */
function replyBody({ namespace, name, localEndpoints }: HealthCheck, isHealthy: boolean): string {
  const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: isHealthy }
  return JSON.stringify(body, null, '\t')
}
