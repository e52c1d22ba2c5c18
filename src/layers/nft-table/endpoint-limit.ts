import type { IpFamily } from '../../address.js'
import { logFamily } from '../../engine/index.js'
import type { Problem, StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import { maxEndpoints } from './compile/schema.js'

/** Reports service ports of one family with more endpoints than `maxEndpoints`: the mode uses the first ones. */
export class EndpointLimit {
  readonly #family: IpFamily
  readonly #warnings: StateReporter
  readonly #reported = new Set<ServicePortKey>()

  constructor(family: IpFamily, warnings: StateReporter) {
    this.#family = family
    this.#warnings = warnings
  }

  /** Takes in the route of a service port; undefined: it was deleted. */
  note(key: ServicePortKey, decided: Pick<Route, 'clusterBackends' | 'localBackends'> | undefined): void {
    const count = Math.max(decided?.clusterBackends.length ?? 0, decided?.localBackends.length ?? 0)
    if (count <= maxEndpoints && !this.#reported.has(key)) return
    const problem = `endpoints ${this.#family} ${key}`
    if (decided === undefined) this.#warnings.forget(problem)
    else this.#warnings.report(problem, count > maxEndpoints ? this.#problemOf(key, count) : undefined)
    if (count > maxEndpoints) this.#reported.add(key)
    else this.#reported.delete(key)
  }

  #problemOf(key: ServicePortKey, count: number): Problem {
    return {
      text: `Service port ${key}: it has ${count} endpoints, and Viaduct uses the first ${maxEndpoints}`,
      fields: { service: key, ipFamily: logFamily(this.#family) },
    }
  }
}
