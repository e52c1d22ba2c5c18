import type { IpAddress, IpFamily } from '../../address.js'
import type { StateReporter } from '../../log.js'
import { type HealthCheckListeners, logFamily } from '../../engine/index.js'

type Checks = Parameters<HealthCheckListeners['sync']>[0]

/** Keeps the listeners for health checks of Services, and reports those that could not be opened. */
export class ServiceHealthChecks {
  readonly #family: IpFamily
  readonly #listeners: HealthCheckListeners
  readonly #warnings: StateReporter
  /** Services whose health check could not be opened. */
  #failed: ReadonlySet<string> = new Set()

  constructor(
    family: IpFamily,
    { listeners, warnings }: { readonly listeners: HealthCheckListeners; readonly warnings: StateReporter },
  ) {
    this.#family = family
    this.#listeners = listeners
    this.#warnings = warnings
  }

  /** Opens and closes listeners until exactly `checks`, by Service, are open at `addresses`. Reports failures and recoveries. */
  async sync(checks: Checks, addresses: 'all' | readonly IpAddress[]): Promise<void> {
    const failures = await this.#listeners.sync(checks, addresses)
    const failed = new Set<string>()
    for (const { service, event } of failures) {
      failed.add(service)
      const fields = { service, ipFamily: logFamily(this.#family) }
      this.#warnings.report(this.#keyOf(service), { text: event.note, fields, event })
    }
    for (const service of this.#failed) {
      if (!checks.has(service)) this.#warnings.forget(this.#keyOf(service))
      else if (!failed.has(service)) this.#warnings.report(this.#keyOf(service), undefined)
    }
    this.#failed = failed
  }

  async stop(): Promise<void> {
    await this.#listeners.stop()
  }

  #keyOf(service: string): string {
    return `${this.#family} health check of ${service}`
  }
}
