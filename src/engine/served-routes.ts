// The routes of one family as this node serves them: without the addresses that other machines have (docs/adr/0028), and without the
// frontends that other service ports have (docs/adr/0007). Layers, follow-ups and views get these routes, and decide on no owner.
import type { FamilyTracker, ServicePort, ServicePortKey } from '../model/index.js'
import {
  addressOf,
  describeFrontend,
  type Frontend,
  type FrontendConflict,
  FrontendOwners,
  frontendsOf,
  holderReasons,
  type LostFrontend,
  type Route,
  routeWithout,
} from '../routing/index.js'
import type { Admission, FamilyMode } from './family-mode.js'
import type { ConflictReports } from './frontend-conflict.js'

interface ServedRoutesOptions<S> {
  readonly tracker: Pick<FamilyTracker, 'servicePort'>
  readonly mode: () => Pick<FamilyMode<S, unknown>, 'admission' | 'nodePortPlaces'>
  /** undefined: none yet. */
  readonly settings: () => S | undefined
  /** Knows the frontends that decisions left out. */
  readonly reports: Pick<ConflictReports, 'leftOutOf'>
}

/** Decides which frontends each service port of one family serves. */
export class ServedRoutes<S> {
  readonly #options: ServedRoutesOptions<S>
  readonly #owners: FrontendOwners
  #concerned = new Set<ServicePortKey>()

  constructor(options: ServedRoutesOptions<S>) {
    this.#options = options
    const { mode, settings } = options
    this.#owners = new FrontendOwners(() => {
      const present = settings()
      return present && mode().nodePortPlaces?.(present)
    })
  }

  /** The service port claims the frontends of its route; undefined: none. */
  claim(key: ServicePortKey, decided: Route | undefined): void {
    const { tracker, mode } = this.#options
    const { admission } = mode()
    const port = decided && tracker.servicePort(key)
    if (decided === undefined || port === undefined) {
      admission?.forget(key)
      this.#concern(this.#owners.release(key))
    } else this.#concern(this.#owners.claim(port, admission?.admit(decided) ?? decided))
  }

  /** The service ports that gained or lost a frontend since the last call, by the claims of others. They are to be compiled again. */
  takeConcerned(): ReadonlySet<ServicePortKey> {
    const concerned = this.#concerned
    if (concerned.size > 0) this.#concerned = new Set()
    return concerned
  }

  /** The route as this node serves it, by the last claims. undefined: no frontend is left. */
  serve(decided: Route): Route | undefined {
    return this.#owners.without(this.#options.mode().admission?.view(decided) ?? decided)
  }

  /** As `serve`, for a route that may have the frontends that decisions leave out. */
  serveWhole(whole: Route): Route | undefined {
    const kept = routeWithout(whole, this.#options.reports.leftOutOf(whole.key))
    return kept && this.serve(kept)
  }

  /** The service port that has the frontend, by the last claims; undefined: no service port claims it. */
  ownerOf(frontend: Frontend): ServicePortKey | undefined {
    return this.#owners.ownerOf(frontend)
  }

  /** The frontends that the service port names and does not get, each with who has it instead. By the last claims. */
  lostFrontends(port: ServicePort): readonly LostFrontend[] {
    const { mode, reports } = this.#options
    const { admission } = mode()
    const leftOut = reports
      .leftOutOf(port.key)
      .map(({ frontend, holder: { name, reason } }) => ({ frontend, owner: name, reason }))
    const elsewhere = admission === undefined ? [] : lostElsewhere(port, admission)
    const contested = this.#owners.lostOf(port)
    if (leftOut.length + elsewhere.length === 0) return contested
    // A health check port is no frontend of a single service port.
    const all = [...contested, ...elsewhere, ...leftOut].filter(
      ({ frontend: { kind } }) => kind !== 'health-check',
    )
    return [...new Map(all.map((lost) => [describeFrontend(lost.frontend), lost])).values()]
  }

  /**
   * The conflicts of the frontends that changed since the last call, and those that ended. Those of service ports whose next claims wait come
   * with a later call.
   */
  takeConflicts(isDirty: (key: ServicePortKey) => boolean): readonly FrontendConflict[] {
    return this.#owners.takeConflicts(isDirty)
  }

  #concern(keys: readonly ServicePortKey[]): void {
    for (const key of keys) this.#concerned.add(key)
  }
}

/** The frontends of the service port that the mode leaves to other machines. */
function lostElsewhere(port: ServicePort, admission: Admission): readonly LostFrontend[] {
  if (port.externalIPs.length + port.loadBalancerIPs.length === 0) return []
  return frontendsOf(port).flatMap((frontend) => {
    const address = addressOf(frontend)
    const owner = address === undefined ? undefined : admission.holderOf(port, address)
    return owner === undefined ? [] : [{ frontend, owner, reason: holderReasons.elsewhere }]
  })
}
