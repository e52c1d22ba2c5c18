// Every mode gets its routes here, without the frontends whose addresses and ports are taken (docs/adr/0007).
import type { IpAddress, IpFamily } from '../address.js'
import { KernelError } from '../errors.js'
import { machineAddresses } from '../host/index.js'
import type { LinkEvent, Links, Routes } from '../kernel/index.js'
import type { FamilyTracker, PortWithEndpoints, ServicePortKey } from '../model/index.js'
import type { NodeFacts } from '../node/index.js'
import {
  type Decision,
  decide,
  dependsOnMachine,
  leftOutFrontends,
  type Route,
  type Taken,
} from '../routing/index.js'
import type { ConflictReports } from './frontend-conflict.js'
import { KernelQuestions, type KernelQuestionsOptions } from './kernel-questions.js'

export interface RouteDecisionsOptions extends KernelQuestionsOptions {
  readonly family: IpFamily
  readonly tracker: Pick<FamilyTracker, 'mark' | 'servicePorts' | 'withEndpoints'> & Taken['services']
  readonly links: Links
  readonly routes: Routes
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
  readonly reports: ConflictReports
}

/** Decides the routes of one family. */
export class RouteDecisions {
  readonly #options: RouteDecisionsOptions
  readonly #questions: KernelQuestions
  /** The service ports whose decision depends on the addresses of the machine; nearly always none, and then these are not read. */
  readonly #dependent = new Set<ServicePortKey>()
  /** The last read addresses; undefined: they may have changed since. */
  #machine: readonly IpAddress[] | undefined
  /** Counts the changes of addresses: a reading during one is not kept. */
  #changes = 0

  constructor(options: RouteDecisionsOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
  }

  /**
   * The route of the service port now. undefined: it does not exist, or has no frontend on this node. A promise only if the kernel must
   * be asked; it does not reject with KernelError.
   */
  decide(key: ServicePortKey): Route | undefined | Promise<Route | undefined> {
    const { tracker, reports } = this.#options
    const found = tracker.withEndpoints(key)
    if (found === undefined) {
      this.#dependent.delete(key)
      reports.noteLeftOut(key, [], { exists: false })
      return undefined
    }
    const decision = this.#decide(found, this.#machine ?? [])
    if (decision.dependsOnMachine) {
      this.#dependent.add(key)
      if (this.#machine === undefined) return this.#readAndDecide(found)
    } else if (this.#dependent.size > 0) this.#dependent.delete(key)
    reports.noteLeftOut(key, decision.leftOut, { exists: true })
    return decision.route
  }

  /** The protected places changed: makes the service ports dirty that gain or lose a frontend by it. Returns whether there are any. */
  applyPlaces(): boolean {
    const { tracker, node, reports } = this.#options
    const taken = { places: node.facts.places, services: tracker }
    const concerned = new Set<ServicePortKey>(reports.withLeftOut)
    for (const port of tracker.servicePorts()) {
      const isConcerned =
        dependsOnMachine(port, taken) || leftOutFrontends(port, taken, this.#machine ?? []).length > 0
      if (isConcerned) concerned.add(port.key)
    }
    tracker.mark(concerned)
    return concerned.size > 0
  }

  /** Makes the service ports dirty whose decision the events may change. Returns whether there are any. */
  applyLinks(events: readonly LinkEvent[]): boolean {
    const isChange = events.some(
      (event) =>
        event.kind === 'overrun' || (event.kind === 'address' && event.family === this.#options.family),
    )
    if (!isChange) return false
    this.#machine = undefined
    this.#changes++
    this.#options.tracker.mark(this.#dependent)
    return this.#dependent.size > 0
  }

  async #readAndDecide(found: PortWithEndpoints): Promise<Route | undefined> {
    const { key } = found.port
    const { leftOut, route } = this.#decide(found, await this.#readMachine(key))
    this.#options.reports.noteLeftOut(key, leftOut, { exists: true })
    return route
  }

  #decide({ port, endpoints }: PortWithEndpoints, machine: readonly IpAddress[]): Decision {
    const { tracker, node } = this.#options
    const { facts } = node
    const taken = { places: facts.places, services: tracker }
    return decide(port, endpoints, facts, { taken, machine })
  }

  /** Without an answer of the kernel, the address of the Node counts, and the next run asks again. */
  async #readMachine(key: ServicePortKey): Promise<readonly IpAddress[]> {
    const { family, node, tracker } = this.#options
    const changes = this.#changes
    const read = await this.#questions.ask(
      { key: 'protected addresses', subject: 'addresses of this machine' },
      async () => await machineAddresses(family, this.#options),
    )
    if (read instanceof KernelError) {
      tracker.mark([key])
      const own = node.facts.addresses[family]
      return own === undefined ? [] : [own]
    }
    if (this.#changes === changes) this.#machine = read
    return read
  }
}
