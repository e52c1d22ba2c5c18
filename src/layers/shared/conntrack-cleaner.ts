import { type IpAddress, type IpFamily, formatEndpoint } from '../../address.js'
import { KernelError } from '../../errors.js'
import type { Conntrack, ConntrackFrontend } from '../../kernel/index.js'
import type { Log, StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Clock } from '../../clock.js'
import { KernelQuestions, logFamily } from '../../engine/index.js'
import { addressOf, describeFrontend, type Frontend, frontendsOf, type Route } from '../../routing/index.js'

export interface ConntrackCleanerOptions {
  readonly family: IpFamily
  readonly conntrack: Conntrack
  /** The addresses of this machine that serve node ports. Called only to check flows to node ports. May reject with KernelError. */
  readonly nodePortAddresses: () => Promise<readonly IpAddress[]>
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly log: Log
  readonly problems: StateReporter
}

/**
 * Deletes UDP flows to an endpoint that was removed, or that stopped serving while others serve. Without this, a client that keeps
 * sending would renew its flow for ever. Flows to endpoints that are only not ready stay while no endpoint serves: no other
 * endpoint could serve them better, and the endpoint may soon be ready again. Beyond kube-proxy (F-071), flows also end with the
 * last endpoint of a Service, with the Service, and with a frontend that it loses. TCP and SCTP flows end by themselves and are
 * never deleted.
 */
export class ConntrackCleaner {
  readonly #options: ConntrackCleanerOptions
  readonly #questions: KernelQuestions
  readonly #frontends = new UdpFrontends()
  /** Frontends whose flows are still to be checked, by name. */
  #pending = new Map<string, Frontend>()
  /** The flows that existed before the start are unknown: the first call checks all frontends. */
  #isAllPending = true

  constructor(options: ConntrackCleanerOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
  }

  /** Another program removed rules for a while: the next clean() checks every frontend. */
  recheck(): void {
    this.#isAllPending = true
  }

  /**
   * Deletes the stale flows of all frontends that these changes concern. Undefined: the route was removed. Call it only after the
   * kernel has taken all of these changes: a flow that is deleted while the old rules are in force comes back. A KernelError is
   * reported; the next call, even one without changes, tries these frontends again. Rejects with any other error.
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
    if (deleted > 0) this.#options.log.debug('Stale conntrack entries are deleted', fields)
  }
}

/** The properties of a route that the clean-up of flows uses. */
type UdpRoute = Pick<Route, 'flowBackends'> & Parameters<typeof frontendsOf>[0]

interface Held {
  readonly frontend: Frontend
  /** The service port that set it last. */
  readonly holder: ServicePortKey
  readonly flowBackends: UdpRoute['flowBackends']
}

/** The frontends of UDP service ports of one family. A frontend that moves is its new owner's at once, whichever of the two is set first. */
export class UdpFrontends {
  readonly #held = new Map<string, Held>()
  readonly #namesOf = new Map<ServicePortKey, readonly string[]>()

  /** Replaces the route of this key; undefined removes it. Returns the frontends that may have flows to the wrong endpoints now. */
  set(key: ServicePortKey, next: UdpRoute | undefined): readonly Frontend[] {
    const stale: Frontend[] = []
    const wanted = new Map(heldBy(key, next).map((held) => [describeFrontend(held.frontend), held]))
    for (const [name, held] of wanted) {
      if (leavesFlows(this.#held.get(name), held)) stale.push(held.frontend)
      this.#held.set(name, held)
    }
    const formerNames = this.#namesOf.get(key) ?? []
    if (wanted.size > 0) this.#namesOf.set(key, [...wanted.keys()])
    else this.#namesOf.delete(key)
    for (const name of formerNames) {
      const former = this.#held.get(name)
      if (former?.holder !== key || wanted.has(name)) continue
      this.#held.delete(name)
      stale.push(former.frontend)
    }
    return stale
  }

  /** Every frontend of a route. */
  get all(): readonly Frontend[] {
    return Array.from(this.#held.values(), ({ frontend }) => frontend)
  }

  /** The frontend with the backends that its flows may lead to; no backends if no route has it. */
  flowsOf(frontend: Frontend): ConntrackFrontend {
    const backends = this.#held.get(describeFrontend(frontend))?.flowBackends ?? []
    return { protocol: 'udp', address: addressOf(frontend), port: frontend.port, backends }
  }
}

function heldBy(holder: ServicePortKey, route: UdpRoute | undefined): readonly Held[] {
  if (route?.protocol !== 'UDP') return []
  const { flowBackends } = route
  return frontendsOf(route).map((frontend) => ({ frontend, holder, flowBackends }))
}

/**
 * Whether the change may leave a flow of the frontend that leads to a wrong endpoint. A new frontend, or one that got its first endpoint,
 * may have flows without address translation, which never reach an endpoint.
 */
function leavesFlows(before: Held | undefined, after: Held): boolean {
  if (before === undefined) return true
  if (before.flowBackends === after.flowBackends) return false
  if (before.flowBackends.length === 0) return after.flowBackends.length > 0
  const kept = new Set(after.flowBackends.map(({ address, port }) => formatEndpoint(address, port)))
  return before.flowBackends.some(({ address, port }) => !kept.has(formatEndpoint(address, port)))
}
