// The metrics of the events that come from the source.
import type { CountUp, EventLabels, Metrics } from '../metrics/index.js'
import type { ObjectEvent } from '../source/index.js'

export type EventMetrics = Pick<Metrics, 'events' | 'serviceChanges' | 'endpointChanges'>

/** Numbers of events, by the kinds that kube-proxy counts too. */
export interface ChangeCounts {
  readonly services: number
  readonly slices: number
}

const kinds: readonly EventLabels['kind'][] = ['Service', 'EndpointSlice', 'Node', 'ServiceCIDR']
const types: readonly EventLabels['type'][] = ['set', 'delete']

interface Cell {
  count: number
  readonly metric: CountUp
}

/** Events by kind and type. A metric is touched once for all events of a delivery. */
export class EventCounts {
  readonly #metrics: EventMetrics
  readonly #cells: Readonly<Record<EventLabels['type'], Readonly<Record<EventLabels['kind'], Cell>>>>

  constructor(metrics: EventMetrics) {
    this.#metrics = metrics
    const cell = (labels: EventLabels): Cell => ({ count: 0, metric: metrics.events(labels) })
    const row = (type: EventLabels['type']): Record<EventLabels['kind'], Cell> => ({
      Service: cell({ kind: 'Service', type }),
      EndpointSlice: cell({ kind: 'EndpointSlice', type }),
      Node: cell({ kind: 'Node', type }),
      ServiceCIDR: cell({ kind: 'ServiceCIDR', type }),
    })
    this.#cells = { set: row('set'), delete: row('delete') }
  }

  /** Counts events that came together. */
  count(events: readonly ObjectEvent[]): ChangeCounts {
    for (const event of events) {
      if (event.type === 'set') this.#cells.set[event.object.kind].count++
      else if (event.type === 'delete') this.#cells.delete[event.kind].count++
    }
    const totals = { Service: 0, EndpointSlice: 0, Node: 0, ServiceCIDR: 0 }
    for (const type of types) {
      for (const kind of kinds) {
        const cell = this.#cells[type][kind]
        if (cell.count === 0) continue
        totals[kind] += cell.count
        cell.metric.inc(cell.count)
        cell.count = 0
      }
    }
    const { Service: services, EndpointSlice: slices } = totals
    this.#metrics.serviceChanges.inc(services)
    this.#metrics.endpointChanges.inc(slices)
    return { services, slices }
  }
}
