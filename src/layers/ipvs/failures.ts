import type { IpAddress, IpFamily } from '../../address.js'
import { describeVirtualServer } from '../../kernel/index.js'
import type { Entry } from './tables/entry.js'
import type { Vip } from '../vips/index.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { Clock } from '../../clock.js'
import { FailedObjects } from '../objects/index.js'

export interface FailuresOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly problems: StateReporter
}

/** Virtual servers and VIPs that the kernel refuses. */
export class Failures {
  readonly servers: FailedObjects<Entry, Entry>
  /** Keyed by address: the table may forget a VIP and make it again. */
  readonly vips: FailedObjects<Vip, IpAddress>

  constructor(options: FailuresOptions) {
    this.servers = new FailedObjects<Entry, Entry>({
      ...options,
      keyOf: (entry) => entry,
      nameOf: ({ key }) => describeVirtualServer(key),
      servicesOf: ({ wanted, service }) => (wanted === undefined ? [] : [service]),
    })
    this.vips = new FailedObjects<Vip, IpAddress>({
      ...options,
      keyOf: ({ address }) => address,
      nameOf: ({ address }) => `vip ${address}`,
      servicesOf: ({ holders }) => holders.map(({ service }) => service),
    })
  }

  /** Milliseconds until an object is to be retried; undefined: none failed. */
  nextInMs(): number | undefined {
    const times = [this.servers.nextInMs(), this.vips.nextInMs()].filter((ms) => ms !== undefined)
    return times.length === 0 ? undefined : Math.min(...times)
  }
}
