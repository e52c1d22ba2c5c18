// The agent's two servers: health, by default on all addresses; metrics and debug pages, by default on loopback.
import type { ServersConfig } from '../config/index.js'
import { type EventRecorder, nodeReference } from '../event.js'
import { type AdjustableLog, StateReporter } from '../log.js'
import type { Clock } from '../clock.js'
import { BoundServer, openListenProblems } from './bound-server.js'
import { debugPages } from './debug-pages.js'
import { healthPages, type HealthCounts, type HealthFacts } from './health-pages.js'
import { operatorPages, type OperatorFacts } from './operator-pages.js'
import { answering, type Pages } from './reply.js'

export interface AgentServersOptions {
  readonly config: ServersConfig
  readonly facts: HealthFacts & OperatorFacts
  readonly counts: HealthCounts
  readonly nodeName: string
  /** Receives an Event for a server that ends the agent. */
  readonly events: EventRecorder
  readonly clock: Pick<Clock, 'now' | 'schedule' | 'unixMs'>
  readonly log: AdjustableLog
  /** Another server that opens and closes with these. */
  readonly control?: AgentServer | undefined
  /** Further pages of the metrics server, which open and close with it. */
  readonly statusPage?: PagedServer | undefined
}

/** A server that opens after the first sync. `start` resolves after one attempt; both are idempotent. */
interface AgentServer {
  start(): Promise<void>
  stop(): Promise<void>
}

/** Pages with work of their own between `start` and `stop`. */
export interface PagedServer extends AgentServer {
  readonly pages: Pages
}

/** Longest wait for the first sync. A start with 10,000 Services takes less. In a longer start, operators and probes need the pages. */
const longestWaitMs = 1000

/** kube-proxy's Event reasons for a server that cannot listen. */
const failureReasons = {
  healthz: 'FailedToStartProxierHealthcheck',
  metrics: 'FailedToStartMetricServer',
} as const

/** Opens and closes the configured servers. */
export class AgentServers {
  readonly #clock: Pick<Clock, 'schedule'>
  readonly #servers: readonly AgentServer[]
  #isStopped = false
  #endWait: () => void = () => {}

  constructor(options: AgentServersOptions) {
    const { config, facts, counts, nodeName, events, clock, log, control, statusPage } = options
    this.#clock = clock
    const pageProblems = new StateReporter({
      log,
      level: 'error',
      problemLine: 'Page failed',
      recovery: 'Page works again',
    })
    const problems = openListenProblems(log)
    const nowMs = (): number => clock.unixMs()
    const report = (reason: string, { message: note }: Error): void =>
      events.record({
        type: 'Warning',
        reason,
        action: 'StartKubeProxy',
        regarding: nodeReference(nodeName),
        note,
      })
    const { healthzBindAddress, metricsBindAddress, bindAddressHardFail: isHardFail } = config
    const debug: Pages = config.enableProfiling ? debugPages(log, clock) : new Map()
    const metricsPages = new Map([
      ...operatorPages(facts, clock),
      ...debug,
      ...(statusPage?.pages ?? new Map<never, never>()),
    ])
    const server = (
      name: 'healthz' | 'metrics',
      address: ServersConfig['healthzBindAddress'],
      pages: Pages,
    ): readonly BoundServer[] =>
      address === undefined
        ? []
        : [
            new BoundServer({
              name,
              address,
              reply: answering(pages, pageProblems),
              isHardFail,
              onHardFail: (problem) => report(failureReasons[name], problem),
              clock,
              problems,
              log,
            }),
          ]
    this.#servers = [
      ...server('healthz', healthzBindAddress, healthPages(facts, counts, nowMs)),
      ...server('metrics', metricsBindAddress, metricsPages),
      ...[control, statusPage].filter((other) => other !== undefined),
    ]
  }

  /**
   * Opens the servers when `inForce` resolves, or after one second, so that the first sync gets all CPU time. Resolves after one attempt
   * per server. Throws ConfigError if one cannot listen and bindAddressHardFail is set.
   */
  async start(inForce: Promise<unknown>): Promise<void> {
    await Promise.race([inForce, this.#wait()])
    this.#endWait()
    if (this.#isStopped) return
    await Promise.all(this.#servers.map(async (server) => await server.start()))
  }

  /** Closes every connection and opens no more. Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#endWait()
    await Promise.all(this.#servers.map(async (server) => await server.stop()))
  }

  async #wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.schedule(longestWaitMs, resolve)
      this.#endWait = () => {
        cancel()
        resolve()
      }
    })
  }
}
