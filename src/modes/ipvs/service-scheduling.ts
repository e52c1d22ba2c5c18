// What Services of one family ask of the scheduler by annotation: whether the kernel has it, and what they do not get.
import type { IpFamily } from '../../address.js'
import { isSchedulerName, type Scheduling } from '../../config/index.js'
import { orRefusal } from '../../engine/index.js'
import type { Ipvs } from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import { asksForScheduling, type SchedulingSettings, unmetRequests } from './compile/scheduling.js'
import type { Route } from '../../routing/index.js'
import { schedulingAnnotations } from '../../source/index.js'
import { hasScheduler, removeProbe, schedulersInUse } from './scheduler-probe.js'

export interface ServiceSchedulingOptions {
  readonly family: IpFamily
  readonly ipvs: Ipvs
  /** Of Services that do not ask; the kernel has that scheduler. */
  readonly scheduling: Scheduling
  /** What a Service asks for and does not get, of both families. */
  readonly warnings: StateReporter
}

/**
 * Schedulers that the kernel has, as far as Services asked for them. A kernel that does not answer is asked again next time; until then
 * the virtual servers show what it has.
 */
export class ServiceScheduling {
  readonly settings: SchedulingSettings
  readonly #options: ServiceSchedulingOptions
  /** Schedulers that the kernel has; undefined: it was not asked yet. */
  #present: Set<string> | undefined
  readonly #missing = new Set<string>()
  /** Service ports that do not get all that they ask for, with their Services. */
  readonly #unmet = new Map<ServicePortKey, string>()

  /** A probe may have stayed in the kernel. */
  #mayHaveProbe = false

  constructor(options: ServiceSchedulingOptions) {
    this.#options = options
    this.settings = { ...options.scheduling, missing: this.#missing }
  }

  /** Whether `settle` has something to do for the route: hardly ever. */
  concerns(route: Route): boolean {
    return asksForScheduling(route) || this.#unmet.has(route.key)
  }

  /** Before the route is compiled: finds out whether the kernel has its scheduler, and tells what it does not get. */
  async settle(route: Route): Promise<void> {
    const { scheduler = '' } = route.scheduling
    if (isSchedulerName(scheduler)) await this.#learn(scheduler)
    const { key, service } = route
    const requests = unmetRequests(route, this.settings)
    if (requests.length === 0) this.#unmet.delete(key)
    else this.#unmet.set(key, service)
    const problems = requests.map(({ request, problem }) => `${schedulingAnnotations[request]} ${problem}`)
    const text = `Service ${service}: ${problems.join('; ')}`
    const problem = requests.length === 0 ? undefined : { text, fields: { service } }
    this.#options.warnings.report(`scheduling of ${service}`, problem)
  }

  /** The service port has gone. */
  forget(key: ServicePortKey): void {
    const service = this.#unmet.get(key)
    if (service === undefined) return
    this.#unmet.delete(key)
    this.#options.warnings.forget(`scheduling of ${service}`)
  }

  /** Looks again for schedulers that were missing: somebody may have loaded them. Resolves with whether one has come. */
  async recheck(): Promise<boolean> {
    const { family, ipvs } = this.#options
    if (this.#mayHaveProbe) {
      await orRefusal(async () => {
        await removeProbe(ipvs, family)
        this.#mayHaveProbe = false
      })
    }
    const before = this.#missing.size
    for (const scheduler of this.#missing) await this.#ask(scheduler)
    return this.#missing.size < before
  }

  async #learn(scheduler: string): Promise<void> {
    const { family, ipvs, scheduling } = this.#options
    if (scheduler === scheduling.scheduler || this.#missing.has(scheduler)) return
    if (this.#present === undefined)
      await orRefusal(async () => {
        this.#present = new Set(await schedulersInUse(ipvs, family))
      })
    if (this.#present?.has(scheduler) !== true) await this.#ask(scheduler)
  }

  async #ask(scheduler: string): Promise<void> {
    const { family, ipvs } = this.#options
    this.#mayHaveProbe = true
    await orRefusal(async () => {
      const isPresent = await hasScheduler(ipvs, family, scheduler)
      this.#mayHaveProbe = false
      if (isPresent) this.#missing.delete(scheduler)
      else this.#missing.add(scheduler)
      if (isPresent) this.#present?.add(scheduler)
    })
  }
}
