// The frontends of UDP services, and those whose flows may be wrong after a change of a route. Pure.
import { formatEndpoint } from '../../address.js'
import type { ConntrackFrontend } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import {
  addressOf,
  type Claimant,
  type Frontend,
  FrontendOwners,
  frontendsOf,
  type Route,
} from '../../routing/index.js'

/** The properties of a route that the clean-up of flows uses. */
export type UdpRoute = Pick<Route, 'flowBackends'> & Claimant & Parameters<typeof frontendsOf>[0]

interface Wanted {
  readonly frontend: Frontend
  readonly flowBackends: UdpRoute['flowBackends']
}

/** The frontends of UDP service ports of one family. */
export class UdpFrontends {
  readonly #owners = new FrontendOwners<Wanted>()

  /** Replaces the route of this key; undefined removes it. Returns the frontends that may have flows to the wrong endpoints now. */
  set(key: ServicePortKey, next: UdpRoute | undefined): readonly Frontend[] {
    const changes = this.#owners.claim(key, next, wantedOf(next))
    // Dropped: the mode reports conflicts.
    this.#owners.takeConflicts()
    const stale: Frontend[] = []
    for (const { before, after } of changes) {
      const frontend = (after[0] ?? before[0])?.frontend
      if (frontend !== undefined && leavesFlows(before[0], after[0])) stale.push(frontend)
    }
    return stale
  }

  /** Every frontend that a route claims. */
  get all(): readonly Frontend[] {
    return Array.from(this.#owners.owned(), ({ frontend }) => frontend)
  }

  /** The frontend with the backends that its flows may lead to; no backends if no route claims it. */
  flowsOf(frontend: Frontend): ConntrackFrontend {
    const backends = this.#owners.wantedOf(frontend)[0]?.flowBackends ?? []
    return { protocol: 'udp', address: addressOf(frontend), port: frontend.port, backends }
  }
}

function wantedOf(route: UdpRoute | undefined): readonly Wanted[] {
  if (route?.protocol !== 'UDP') return []
  const { flowBackends } = route
  return frontendsOf(route).map((frontend) => ({ frontend, flowBackends }))
}

/**
 * Whether the change may leave a flow of the frontend that leads to a wrong endpoint. Undefined: no route claims the frontend. A new
 * frontend, or one that got its first endpoint, may have flows without address translation, which never reach an endpoint.
 */
function leavesFlows(before: Wanted | undefined, after: Wanted | undefined): boolean {
  if (before === undefined || after === undefined) return true
  if (before.flowBackends === after.flowBackends) return false
  if (before.flowBackends.length === 0) return after.flowBackends.length > 0
  const kept = new Set(after.flowBackends.map(({ address, port }) => formatEndpoint(address, port)))
  return before.flowBackends.some(({ address, port }) => !kept.has(formatEndpoint(address, port)))
}
