import type { IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Clock } from '../../clock.js'
import { FailedObjects } from '../../engine/index.js'

export interface LeftOutRoutesOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly problems: StateReporter
  /** `namespace/name:port`; undefined: there is no such service port (any more). */
  readonly portNameOf: (route: ServicePortKey) => string | undefined
}

interface LeftOut {
  readonly route: ServicePortKey
  readonly isStale: false
}

/**
 * Service ports with a rule that the kernel refuses: nothing of them is in the tables. Each is reported by its name and
 * tried again with back-off, or when it changes.
 */
export class LeftOutRoutes {
  readonly #failed: FailedObjects<LeftOut, ServicePortKey>
  readonly #known = new Set<ServicePortKey>()
  /** Known ones that were claimed since they were left out. */
  readonly #tried = new Set<ServicePortKey>()

  constructor({ portNameOf, ...options }: LeftOutRoutesOptions) {
    this.#failed = new FailedObjects({
      ...options,
      keyOf: ({ route }) => route,
      nameOf: ({ route }) => `${options.family} ${route}`,
      servicesOf: ({ route }) => {
        const name = portNameOf(route)
        return name === undefined ? [] : [name]
      },
    })
  }

  /** Those to claim again now. */
  due(): readonly ServicePortKey[] {
    return this.#failed.due()
  }

  nextInMs(): number | undefined {
    return this.#failed.nextInMs()
  }

  /** The route was claimed, or released. */
  noteClaim(route: ServicePortKey): void {
    if (this.#known.has(route)) this.#tried.add(route)
  }

  /** The kernel refused a rule of the route. */
  add(route: ServicePortKey, error: KernelError): void {
    const target: LeftOut = { route, isStale: false }
    this.#known.add(route)
    this.#tried.delete(route)
    this.#failed.note({ refusals: [{ target, error }], surprises: [] })
    this.#failed.settle([target])
  }

  /** The tables hold everything that is claimed. */
  settle(): void {
    for (const route of this.#tried) this.#known.delete(route)
    this.#failed.settle([...this.#tried].map((route): LeftOut => ({ route, isStale: false })))
    this.#tried.clear()
  }
}
