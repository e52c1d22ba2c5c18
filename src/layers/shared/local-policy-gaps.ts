import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'

type Policy = 'internal' | 'external'

/**
 * Services of traffic policy Local that have a port with endpoints, but with none on this node (kube-proxy's metric
 * sync_proxy_rules_no_local_endpoints_total).
 */
export class LocalPolicyGaps {
  readonly #gaps: Readonly<Record<Policy, Gaps>> = { internal: new Gaps(), external: new Gaps() }

  /** undefined: the service port was removed. */
  put(key: ServicePortKey, route: Route | undefined): void {
    const isGap = route !== undefined && route.hasEndpoints && route.localBackends.length === 0
    this.#gaps.internal.set(key, isGap && route.isInternalLocal ? route.service : undefined)
    this.#gaps.external.set(key, isGap && route.isExternalLocal ? route.service : undefined)
  }

  /** Number of such Services. */
  count(policy: Policy): number {
    return this.#gaps[policy].services
  }
}

/** The Services and ports for one policy. */
class Gaps {
  readonly #serviceOf = new Map<ServicePortKey, string>()
  /** How many ports of each Service are in `#serviceOf`. */
  readonly #portCounts = new Map<string, number>()

  /** `service`: the Service of the port; undefined: the port has no gap. */
  set(key: ServicePortKey, service: string | undefined): void {
    const former = this.#serviceOf.get(key)
    if (former === service) return
    if (former !== undefined) this.#count(former, -1)
    if (service === undefined) this.#serviceOf.delete(key)
    else {
      this.#serviceOf.set(key, service)
      this.#count(service, 1)
    }
  }

  get services(): number {
    return this.#portCounts.size
  }

  #count(service: string, change: 1 | -1): void {
    const count = (this.#portCounts.get(service) ?? 0) + change
    if (count === 0) this.#portCounts.delete(service)
    else this.#portCounts.set(service, count)
  }
}
