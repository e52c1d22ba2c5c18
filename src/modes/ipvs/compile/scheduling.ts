// How connections of a Service are distributed over its backends: by its annotations, or by the node's settings.
import { readScheduling, type Scheduling } from '../../../config/index.js'
import type { Route } from '../../../routing/index.js'

/** The scheduling of Services without a request, and the schedulers that are not available. */
export interface SchedulingSettings extends Scheduling {
  /** Schedulers that this kernel does not have. */
  readonly missing: ReadonlySet<string>
}

/** Weights of backends by the name of their node; a node that is absent weighs 1. */
export type Weights = ReadonlyMap<string, number>

/** A request of a Service that is not met. */
export interface UnmetRequest {
  readonly request: keyof Route['scheduling']
  /** The reason, and the value that is used instead. */
  readonly problem: string
}

/** The largest weight that ipvsadm takes. */
const largestWeight = 65_535
const equalWeights: Weights = new Map()
const nothingUnmet: readonly UnmetRequest[] = []
/** Schedulers that only ask whether a weight is 0 (ip_vs_rr.c, ip_vs_lc.c, ip_vs_dh.c of net/netfilter/ipvs). */
const weightless: ReadonlySet<string> = new Set(['rr', 'lc', 'dh'])

/** Whether the Service has any scheduling request. */
export function asksForScheduling({ scheduling }: Route): boolean {
  const { scheduler, schedulerFlags, weights } = scheduling
  return scheduler !== undefined || schedulerFlags !== undefined || weights !== undefined
}

/** The scheduler of every virtual server of the route. A request that cannot be met is ignored. */
export function schedulerOf(route: Route, settings: SchedulingSettings): Scheduling {
  return chooseScheduler(route, settings).scheduling
}

/** The weights of the route's backends. A request that cannot be read is ignored. */
export function weightsOf({ scheduling: { weights } }: Route): Weights {
  if (weights === undefined) return equalWeights
  const read = readWeights(weights)
  return typeof read === 'string' ? equalWeights : read
}

/** The requests of the route that are not met; empty: all are met. */
export function unmetRequests(route: Route, settings: SchedulingSettings): readonly UnmetRequest[] {
  if (!asksForScheduling(route)) return nothingUnmet
  const { scheduling, unmet } = chooseScheduler(route, settings)
  const found = unmet === undefined ? [] : [unmet]
  const { weights } = route.scheduling
  if (weights === undefined) return found
  const read = readWeights(weights)
  if (typeof read === 'string')
    return [...found, { request: 'weights', problem: `${read}; every backend weighs 1` }]
  if (!weightless.has(scheduling.scheduler)) return found
  const problem = `has no effect: the scheduler ${scheduling.scheduler} does not look at weights, but wrr, wlc, sh and mh do`
  return [...found, { request: 'weights', problem }]
}

interface Choice {
  readonly scheduling: Scheduling
  readonly unmet?: UnmetRequest
}

function chooseScheduler({ scheduling: request }: Route, settings: SchedulingSettings): Choice {
  if (request.scheduler === undefined && request.schedulerFlags === undefined) return { scheduling: settings }
  const scheduler = request.scheduler ?? settings.scheduler
  const schedulerFlags = request.schedulerFlags?.split(',').map((name) => name.trim())
  if (settings.missing.has(scheduler)) {
    const problem = `this kernel has no scheduler "${scheduler}": load the module ip_vs_${scheduler}`
    return refusal('scheduler', settings, problem)
  }
  if (scheduler === '')
    return refusal('scheduler', settings, 'must be a scheduler of the kernel such as rr, lc or mh, not ""')
  const read = readScheduling({ scheduler, schedulerFlags })
  if (!('problem' in read)) return { scheduling: read }
  if (read.field === 'scheduler') return refusal('scheduler', settings, read.problem)
  const plain = request.scheduler === undefined ? settings : readScheduling({ scheduler })
  return refusal('schedulerFlags', 'problem' in plain ? settings : plain, read.problem)
}

/** The choice that replaces a request, with the reason. */
function refusal(request: keyof Scheduling, scheduling: Scheduling, problem: string): Choice {
  const { scheduler: used, schedulerFlags: flags } = scheduling
  const instead = flags.length === 0 ? used : `${used} with ${flags.join(', ')}`
  return { scheduling, unmet: { request, problem: `${problem}; this Service uses ${instead}` } }
}

/** Returns the weights, or a message about the first error in the text. */
function readWeights(text: string): Weights | string {
  const weights = new Map<string, number>()
  for (const entry of text.split(',')) {
    const { node, number } = /^(?<node>[^=\s]+)=(?<number>\d{1,5})$/u.exec(entry.trim())?.groups ?? {}
    const weight = Number(number)
    if (node === undefined || !(weight >= 1 && weight <= largestWeight) || weights.has(node)) {
      return `must be written NODE=WEIGHT,OTHER=WEIGHT, each node once, with weights from 1 to ${largestWeight}, not "${entry.trim()}"`
    }
    weights.set(node, weight)
  }
  return weights
}
