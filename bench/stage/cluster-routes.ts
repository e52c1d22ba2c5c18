// The routes of the cluster of bench/state.ts, as the agent's model and routing decide them.
import { trackFamily } from '../../test/support/tracked-family.js'
import { route, type Route } from '../../src/routing/index.js'
import { realServersOf, service, slice } from '../state.js'
import type { Size } from './manifests.js'

const facts = { name: 'node-a', zone: undefined, addresses: {}, podCIDRs: [] }

/** A model of the cluster, in IPv4. */
export class ClusterRoutes {
  readonly #tracker = trackFamily('ipv4')

  constructor({ services, reals }: Size) {
    for (let i = 0; i < services; i++) {
      this.#tracker.apply({ type: 'set', object: service(i) })
      this.setEndpoints(i, realServersOf(i, reals))
    }
  }

  /** Replaces the endpoints of service `index`. */
  setEndpoints(index: number, addresses: readonly string[]): void {
    this.#tracker.apply({ type: 'set', object: slice(index, addresses) })
  }

  /** The routes that changed since the last call; the first call returns all. */
  take(): readonly Route[] {
    return [...this.#tracker.take()].flatMap((key) => {
      const port = this.#tracker.servicePort(key)
      return port === undefined ? [] : [route(port, this.#tracker.endpoints(port), facts)]
    })
  }
}
