import type { ServicePortKey } from '../model/index.js'
import type { Route } from '../routing/index.js'

type Policy = 'internal' | 'external'

/** Service ports of traffic policy Local whose endpoints are all on other nodes (kube-proxy's no_local_endpoints metric). */
export class LocalPolicyGaps {
  readonly #ports: Readonly<Record<Policy, Set<ServicePortKey>>> = {
    internal: new Set(),
    external: new Set(),
  }

  /** undefined: there is no such service port any more. */
  put(key: ServicePortKey, route: Route | undefined): void {
    const isGap = route !== undefined && route.hasEndpoints && route.localBackends.length === 0
    this.#set('internal', key, isGap && route.isInternalLocal)
    this.#set('external', key, isGap && route.isExternalLocal)
  }

  count(policy: Policy): number {
    return this.#ports[policy].size
  }

  #set(policy: Policy, key: ServicePortKey, isGap: boolean): void {
    if (isGap) this.#ports[policy].add(key)
    else this.#ports[policy].delete(key)
  }
}
