import type { IpAddress, IpFamily } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Conntrack } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Clock } from '../../clock.js'
import { KernelQuestions, logFamily } from '../../engine/index.js'
import { describeFrontend, type Frontend } from '../../routing/index.js'
import { UdpFrontends, type UdpRoute } from './udp-frontends.js'

export interface ConntrackCleanerOptions {
  readonly family: IpFamily
  readonly conntrack: Conntrack
  /** The addresses of this machine that serve node ports; asked for while flows to node ports are looked at. May reject with KernelError. */
  readonly nodePortAddresses: () => Promise<readonly IpAddress[]>
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly log: Log
  readonly problems: StateReporter
}

/**
 * Ends UDP flows that lead to an endpoint that is gone, or that serves no longer while others do: a client that keeps sending
 * would renew its flow for ever. Flows of endpoints that are merely not ready stay while no endpoint serves: no other endpoint could serve
 * them better, and the endpoint may be ready again soon. Beyond kube-proxy (F-071), flows also end with the last endpoint of a
 * Service, with the Service and with a frontend that it loses. TCP and SCTP end by themselves and are never touched.
 */
export class ConntrackCleaner {
  readonly #options: ConntrackCleanerOptions
  readonly #questions: KernelQuestions
  readonly #frontends = new UdpFrontends()
  /** Frontends whose flows are still to be checked, by name. */
  #pending = new Map<string, Frontend>()
  /** What was there before us is not known: the first time, everything is looked at. */
  #isAllPending = true

  constructor(options: ConntrackCleanerOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
  }

  /** Somebody took rules away for a while: the next clean() looks at every frontend. */
  recheck(): void {
    this.#isAllPending = true
  }

  /**
   * To be called when the kernel has taken all of these changes, and not before: a flow that is deleted while the old rules
   * are in force comes back. Undefined: the route is gone. What could not be cleaned is tried again by the next call, which
   * may be one without changes. Rejects only for what is no KernelError.
   */
  async clean(changes: Iterable<readonly [ServicePortKey, UdpRoute | undefined]>): Promise<void> {
    for (const [key, route] of changes) this.#remember(this.#frontends.set(key, route))
    if (this.#isAllPending) this.#remember(this.#frontends.all)
    this.#isAllPending = false
    const taken = [...this.#pending.values()]
    this.#pending = new Map()
    if (taken.length > 0) await this.#cleanFlows(taken)
  }

  async #cleanFlows(frontends: readonly Frontend[]): Promise<void> {
    const { clock, conntrack, family, metrics, nodePortAddresses } = this.#options
    const startMs = clock.now()
    const answer = await this.#questions.ask({ key: 'kernel conntrack' }, async () => {
      const hasNodePort = frontends.some(({ kind }) => kind === 'node-port')
      return await conntrack.deleteStale(
        family,
        frontends.map((frontend) => this.#frontends.flowsOf(frontend)),
        hasNodePort ? await nodePortAddresses() : [],
      )
    })
    if (answer instanceof KernelError) this.#remember(frontends)
    else {
      metrics.conntrackDeleted.inc(answer.deleted)
      this.#logDone(frontends.length, answer.deleted)
    }
    metrics.conntrackSyncSeconds.observe((clock.now() - startMs) / 1000)
  }

  #remember(frontends: readonly Frontend[]): void {
    for (const frontend of frontends) this.#pending.set(describeFrontend(frontend), frontend)
  }

  #logDone(frontends: number, deleted: number): void {
    const fields = { ipFamily: logFamily(this.#options.family), frontends, deleted }
    if (deleted > 0) this.#options.log.debug('deleted stale conntrack entries', fields)
  }
}
