import type { IpFamily } from '../address.js'
import { serviceReference } from '../event.js'
import type { Problem, StateReporter } from '../log.js'
import type { FamilyMetrics } from '../metrics/index.js'
import type { ServicePortKey } from '../model/index.js'
import {
  describeFrontend,
  type Frontend,
  type FrontendConflict,
  type LeftOutFrontend,
} from '../routing/index.js'
import { logFamily } from './sync-report.js'

export interface ConflictReportsOptions {
  readonly family: IpFamily
  /** Gets the requests of Services that the mode does not provide, of both families. */
  readonly warnings: StateReporter
  readonly metrics: Pick<FamilyMetrics, 'frontendConflicts'>
}

/** A frontend that a service port or a Service does not get. */
interface Lost {
  readonly loser: Loser
  /** Such as `tcp 10.96.0.1:80`. */
  readonly frontend: string
  /** The service port, or the part of the node, that has it. */
  readonly owner: string
  /** A clause that follows the owner and a comma. */
  readonly reason: string
  /** The part of the frontend that a server has. Absent: a service port is the owner. */
  readonly served?: 'address' | 'port'
}

const noneLeftOut: readonly LeftOutFrontend[] = []

/** One service port, or a Service as a whole: its ports share a health check port. */
interface Loser {
  readonly kind: 'Service port' | 'Service'
  /** The key of the service port, or `namespace/name`. */
  readonly name: string
}

/**
 * Reports and counts the frontends of one family that service ports do not get, and the ends of such states (docs/adr/0007): a log line, an
 * Event for the Service, and a metric.
 */
export class ConflictReports {
  readonly #options: ConflictReportsOptions
  /** The service ports by the losses that concern them. */
  readonly #lost = new Map<string, Set<ServicePortKey>>()
  /** The frontends that were left out, of the service ports that have such ones. */
  readonly #leftOut = new Map<ServicePortKey, readonly LeftOutFrontend[]>()

  constructor(options: ConflictReportsOptions) {
    this.#options = options
  }

  /** Another service port has a frontend, or the conflict has ended. */
  note({ loser, frontend, winner, reason = '' }: FrontendConflict): void {
    const lost = { loser: { kind: 'Service port', name: loser }, frontend } as const
    const key = this.#keyOf(lost)
    if (winner === undefined) this.#forget(key, loser)
    else if (winner === loser) this.#end(key, loser)
    else this.#begin(key, loser, { ...lost, owner: winner, reason })
  }

  /** These frontends of the service port are left out now. `exists`: false if it was removed. */
  noteLeftOut(
    port: ServicePortKey,
    leftOut: readonly LeftOutFrontend[],
    { exists }: { readonly exists: boolean },
  ): void {
    const former = this.#leftOut.get(port) ?? []
    if (leftOut.length === 0 && former.length === 0) return
    const keyOf = ({ frontend }: LeftOutFrontend): string =>
      `left out: ${this.#keyOf(loserOf(port, frontend))}`
    const present = new Set(leftOut.map(keyOf))
    for (const key of former.map(keyOf)) {
      if (present.has(key)) continue
      if (exists) this.#end(key, port)
      else this.#forget(key, port)
    }
    for (const each of leftOut) {
      const { name: owner, kind, reason } = each.holder
      this.#begin(keyOf(each), port, {
        ...loserOf(port, each.frontend),
        owner,
        reason,
        ...(kind === 'server' && { served: each.frontend.kind === 'address' ? 'address' : 'port' }),
      })
    }
    if (leftOut.length > 0) this.#leftOut.set(port, leftOut)
    else this.#leftOut.delete(port)
  }

  /** The service ports with frontends that are left out. */
  get withLeftOut(): Iterable<ServicePortKey> {
    return this.#leftOut.keys()
  }

  /** The frontends of the service port that are left out. */
  leftOutOf(port: ServicePortKey): readonly LeftOutFrontend[] {
    return this.#leftOut.get(port) ?? noneLeftOut
  }

  #keyOf({ loser, frontend }: Pick<Lost, 'loser' | 'frontend'>): string {
    return `${this.#options.family} ${frontend} of ${loser.name}`
  }

  #begin(key: string, port: ServicePortKey, lost: Lost): void {
    this.#options.warnings.report(key, problemOf(lost, this.#options.family))
    const ports = this.#lost.get(key)
    if (ports === undefined) this.#lost.set(key, new Set([port]))
    else ports.add(port)
    this.#count()
  }

  /** The service port has the frontend now. */
  #end(key: string, port: ServicePortKey): void {
    if (this.#isLast(key, port)) this.#options.warnings.report(key, undefined)
  }

  /** The service port does not want the frontend any more. */
  #forget(key: string, port: ServicePortKey): void {
    if (this.#isLast(key, port)) this.#options.warnings.forget(key)
  }

  /** Takes the service port from the loss. Returns whether it concerns no other one, and has ended. */
  #isLast(key: string, port: ServicePortKey): boolean {
    const ports = this.#lost.get(key)
    ports?.delete(port)
    if (ports !== undefined && ports.size > 0) return false
    this.#lost.delete(key)
    this.#count()
    return true
  }

  #count(): void {
    this.#options.metrics.frontendConflicts.set(this.#lost.size)
  }
}

/** All ports of a Service lose its health check port as one. */
function loserOf(port: ServicePortKey, frontend: Frontend): Pick<Lost, 'loser' | 'frontend'> {
  const [service = port] = port.split(':')
  const loser: Loser =
    frontend.kind === 'health-check'
      ? { kind: 'Service', name: service }
      : { kind: 'Service port', name: port }
  return { loser, frontend: describeFrontend(frontend) }
}

function problemOf({ loser, frontend, owner, reason, served }: Lost, family: IpFamily): Problem {
  const state =
    served === undefined
      ? `already belongs to ${owner}, ${reason}`
      : `is the ${served} of ${owner}; no Service may use it`
  const text = `${loser.kind} ${loser.name}: ${frontend} ${state}`
  const [namespace = '', name = ''] = loser.name.split(/[/:]/)
  const regarding = serviceReference(namespace, name)
  return {
    text,
    fields: {
      service: loser.name,
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
