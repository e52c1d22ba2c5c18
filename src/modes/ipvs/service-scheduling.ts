// The scheduling requests of Services of one family: whether the kernel has the scheduler, and which requests are not met.
import type { IpFamily } from '../../address.js'
import { isSchedulerName, type Scheduling } from '../../config/index.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Ipvs } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import { asksForScheduling, type SchedulingSettings, unmetRequests } from './compile/scheduling.js'
import type { Route } from '../../routing/index.js'
import { schedulingAnnotations } from '../../source/index.js'
import type { Problem, StateReporter } from '../../log.js'
import { hasScheduler, removeProbe, schedulersInUse } from './scheduler-probe.js'

interface ServiceSchedulingOptions {
  readonly family: IpFamily
  readonly ipvs: Ipvs
  /** The scheduling of Services without a request; the kernel has its scheduler. */
  readonly scheduling: Scheduling
  /** Gets the Services with unmet requests, of both families. */
  readonly unmet: UnmetServices
}

/**
 * Knows which of the requested schedulers the kernel has. The schedulers of existing virtual servers need no probe. While the kernel
 * does not answer a probe, the scheduler counts as available, and `settle` and `recheck` probe again.
 */
export class ServiceScheduling {
  readonly settings: SchedulingSettings
  readonly #options: ServiceSchedulingOptions
  /** Schedulers that the kernel is known to have; undefined: those of existing virtual servers were not read yet. */
  #present: Set<string> | undefined
  readonly #missing = new Set<string>()
  /** Service ports with an unmet request, and their Services. */
  readonly #unmet = new Map<ServicePortKey, string>()
  /** Service ports whose scheduler the kernel has not answered for, and the scheduler. */
  readonly #unanswered = new Map<ServicePortKey, string>()
  /** The kernel may still have a probe. */
  #mayHaveProbe = false

  constructor(options: ServiceSchedulingOptions) {
    this.#options = options
    this.settings = { ...options.scheduling, missing: this.#missing }
  }

  /** Whether `settle` has work for the route. This is rare. */
  concerns(route: Route): boolean {
    const { key } = route
    return asksForScheduling(route) || this.#unmet.has(key) || this.#unanswered.has(key)
  }

  /** Runs before the route is compiled: probes for its scheduler if it is not known, and reports the unmet requests. */
  async settle(route: Route): Promise<void> {
    const { scheduler = '' } = route.scheduling
    const { key, service } = route
    if (!isSchedulerName(scheduler) || (await this.#learn(scheduler))) this.#unanswered.delete(key)
    else this.#unanswered.set(key, scheduler)
    const requests = unmetRequests(route, this.settings)
    if (requests.length === 0) this.#unmet.delete(key)
    else this.#unmet.set(key, service)
    const problems = requests.map(({ request, problem }) => `${schedulingAnnotations[request]} ${problem}`)
    const text = `Service ${service}: ${problems.join('; ')}`
    const problem = requests.length === 0 ? undefined : { text, fields: { service } }
    this.#options.unmet.report(service, this.#portOf(key), problem)
  }

  /** The service port was removed. */
  forget(key: ServicePortKey): void {
    this.#unanswered.delete(key)
    const service = this.#unmet.get(key)
    if (service === undefined) return
    this.#unmet.delete(key)
    this.#options.unmet.forget(service, this.#portOf(key))
  }

  /**
   * Probes again for schedulers that were missing, whose module may be loaded now, and for those without an answer. Returns the service
   * ports to compile again.
   */
  async recheck(): Promise<readonly ServicePortKey[]> {
    const { family, ipvs } = this.#options
    if (this.#mayHaveProbe) {
      await orRefusal(async () => {
        await removeProbe(ipvs, family)
        this.#mayHaveProbe = false
      })
    }
    let isFound = false
    for (const scheduler of this.#missing) isFound = (await this.#ask(scheduler)) === 'present' || isFound
    const answered: ServicePortKey[] = []
    for (const scheduler of new Set(this.#unanswered.values())) {
      if ((await this.#ask(scheduler)) === undefined) continue
      for (const [key, other] of this.#unanswered) if (other === scheduler) answered.push(key)
    }
    return isFound ? [...this.#unmet.keys(), ...answered] : answered
  }

  #portOf(key: ServicePortKey): string {
    return `${this.#options.family} ${key}`
  }

  /** Resolves with whether it is known now that the kernel has the scheduler, or lacks it. */
  async #learn(scheduler: string): Promise<boolean> {
    const { family, ipvs, scheduling } = this.#options
    if (scheduler === scheduling.scheduler || this.#missing.has(scheduler)) return true
    if (this.#present === undefined)
      await orRefusal(async () => {
        this.#present = new Set(await schedulersInUse(ipvs, family))
      })
    return this.#present?.has(scheduler) === true || (await this.#ask(scheduler)) !== undefined
  }

  /** Probes for the scheduler. undefined: the kernel did not answer. */
  async #ask(scheduler: string): Promise<'present' | 'missing' | undefined> {
    const { family, ipvs } = this.#options
    this.#mayHaveProbe = true
    const answer = await orRefusal(async () => {
      const isPresent = await hasScheduler(ipvs, family, scheduler)
      this.#mayHaveProbe = false
      if (isPresent) this.#missing.delete(scheduler)
      else this.#missing.add(scheduler)
      if (isPresent) this.#present?.add(scheduler)
      return isPresent ? 'present' : 'missing'
    })
    return answer instanceof KernelError ? undefined : answer
  }
}

/** Warns of Services whose scheduling requests are not met: one warning per Service, for all of its service ports in both families. */
export class UnmetServices {
  readonly #warnings: StateReporter
  /** Service ports with an unmet request, by Service. */
  readonly #ports = new Map<string, Set<string>>()

  /** `warnings`: gets the requests of Services that the mode does not provide, of both families. */
  constructor(warnings: StateReporter) {
    this.#warnings = warnings
  }

  /** Takes the current problem of the Service, as one of its ports has it, or undefined for none. `port`: unique in both families. */
  report(service: string, port: string, problem: Problem | undefined): void {
    if (problem === undefined) this.#remove(service, port)
    else this.#ports.set(service, (this.#ports.get(service) ?? new Set()).add(port))
    this.#warnings.report(keyOf(service), problem)
  }

  /** The service port was removed. The problem of the Service ends with the last one that has it. */
  forget(service: string, port: string): void {
    this.#remove(service, port)
    if (!this.#ports.has(service)) this.#warnings.forget(keyOf(service))
  }

  #remove(service: string, port: string): void {
    const ports = this.#ports.get(service)
    ports?.delete(port)
    if (ports?.size === 0) this.#ports.delete(service)
  }
}

function keyOf(service: string): string {
  return `scheduling of ${service}`
}
