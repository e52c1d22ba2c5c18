import type { IpFamily } from '../../address.js'
import { serviceReference } from '../../event.js'
import type { Problem, StateReporter } from '../../log.js'
import { logFamily } from '../../engine/index.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import {
  describeFrontend,
  type FrontendConflict,
  holderReasons,
  type LeftOutFrontend,
} from '../../routing/index.js'

export interface ConflictReportsOptions {
  readonly family: IpFamily
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly metrics: Pick<FamilyMetrics, 'frontendConflicts'>
}

/** A frontend that a service port does not get. */
interface Lost {
  readonly loser: ServicePortKey
  /** Such as `tcp 10.96.0.1:80`. */
  readonly frontend: string
  /** The service port, or the part of the node, that has it. */
  readonly owner: string
  /** A clause that follows the owner and a comma. */
  readonly reason: string
  /** The part of the frontend that a server has. Absent: a service port is the owner. */
  readonly served?: 'address' | 'port'
}

/**
 * Reports and counts the frontends of one family that service ports do not get, and the ends of such states (docs/adr/0007): a log line, an
 * Event for the Service, and a metric.
 */
export class ConflictReports {
  readonly #options: ConflictReportsOptions
  readonly #lost = new Set<string>()
  /** The frontends that were left out, of the service ports that have such ones. */
  readonly #leftOut = new Map<ServicePortKey, readonly LeftOutFrontend[]>()

  constructor(options: ConflictReportsOptions) {
    this.#options = options
  }

  /** Another service port has a frontend, or the conflict has ended. */
  note({ loser, frontend, winner, reason = '' }: FrontendConflict): void {
    const key = this.#keyOf(loser, frontend)
    if (winner === undefined) this.#forget(key)
    else this.#report(key, winner === loser ? undefined : { loser, frontend, owner: winner, reason })
  }

  /** These frontends of the service port are left out now. `exists`: false if it was removed. */
  noteLeftOut(
    loser: ServicePortKey,
    leftOut: readonly LeftOutFrontend[],
    { exists }: { readonly exists: boolean },
  ): void {
    const former = this.#leftOut.get(loser) ?? []
    if (leftOut.length === 0 && former.length === 0) return
    const keyOf = ({ frontend }: LeftOutFrontend): string =>
      `left out: ${this.#keyOf(loser, describeFrontend(frontend))}`
    const present = new Set(leftOut.map(keyOf))
    for (const key of former.map(keyOf)) {
      if (present.has(key)) continue
      if (exists) this.#report(key, undefined)
      else this.#forget(key)
    }
    for (const each of leftOut) {
      const { name: owner, kind } = each.holder
      this.#report(keyOf(each), {
        loser,
        frontend: describeFrontend(each.frontend),
        owner,
        reason: holderReasons[kind],
        ...(kind === 'server' && { served: each.frontend.kind === 'address' ? 'address' : 'port' }),
      })
    }
    if (leftOut.length > 0) this.#leftOut.set(loser, leftOut)
    else this.#leftOut.delete(loser)
  }

  /** The service ports with frontends that are left out. */
  get withLeftOut(): Iterable<ServicePortKey> {
    return this.#leftOut.keys()
  }

  #keyOf(loser: ServicePortKey, frontend: string): string {
    return `${this.#options.family} ${frontend} of ${loser}`
  }

  #report(key: string, lost: Lost | undefined): void {
    this.#options.warnings.report(key, lost && problemOf(lost, this.#options.family))
    if (lost === undefined) this.#lost.delete(key)
    else this.#lost.add(key)
    this.#count()
  }

  #forget(key: string): void {
    this.#options.warnings.forget(key)
    this.#lost.delete(key)
    this.#count()
  }

  #count(): void {
    this.#options.metrics.frontendConflicts.set(this.#lost.size)
  }
}

function problemOf({ loser, frontend, owner, reason, served }: Lost, family: IpFamily): Problem {
  const state =
    served === undefined
      ? `already belongs to ${owner}, ${reason}`
      : `is the ${served} of ${owner}; no Service may use it`
  const text = `Service port ${loser}: ${frontend} ${state}`
  const [namespace = '', name = ''] = loser.split(/[/:]/)
  const regarding = serviceReference(namespace, name)
  return {
    text,
    fields: {
      service: loser,
      frontend,
      owner,
      reason,
      ipFamily: logFamily(family),
    },
    event: {
      type: 'Warning',
      reason: 'FrontendConflict',
      action: 'Sync',
      regarding,
      note: text,
    },
  }
}
