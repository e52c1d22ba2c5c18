import type { IpFamily } from '../address.js'
import type { Observation } from '../metrics/index.js'
import type { Change } from './changes.js'

/** While the kernel refuses: more say nothing that these do not. */
const longestList = 10_000

/**
 * When the endpoints of one family changed in the cluster, as their EndpointSlices say, until the changes are in the kernel (F-122).
 * Times are Unix milliseconds.
 */
export class TriggerTimes {
  readonly #addressType: 'IPv4' | 'IPv6'
  readonly #startMs: number
  /** Of changes that no run has begun with. */
  #waiting: Trigger[] = []
  #inWork: Trigger[] = []

  /** What changed before `startMs` tells how long the process was away, not how long a change takes. */
  constructor(family: IpFamily, startMs: number) {
    this.#addressType = family === 'ipv4' ? 'IPv4' : 'IPv6'
    this.#startMs = startMs
  }

  note(change: Change): void {
    if (change.type === 'slice-gone') this.#forget(change.service)
    if (change.type !== 'set' || change.object.kind !== 'EndpointSlice') return
    const { namespace, serviceName, lastChangeMs, addressType } = change.object
    if (serviceName === undefined || lastChangeMs === undefined || lastChangeMs <= this.#startMs) return
    if (addressType === this.#addressType && this.#waiting.length < longestList)
      this.#waiting.push({ service: `${namespace}/${serviceName}`, ms: lastChangeMs })
  }

  /** A run begins with all that waits; the one before has been settled, or waits on. */
  begin(): void {
    if (this.#waiting.length === 0) return
    this.#inWork = this.#waiting
    this.#waiting = []
  }

  /** What the run was for is in the kernel. */
  settle(nowMs: number, latency: Observation): void {
    if (this.#inWork.length === 0) return
    // Clocks of two machines may differ.
    for (const { ms } of this.#inWork) latency.observe(Math.max(0, nowMs - ms) / 1000)
    this.#inWork = []
  }

  /** What the run was for is still to be done. */
  waitOn(): void {
    if (this.#inWork.length === 0) return
    this.#waiting = this.#inWork.concat(this.#waiting).slice(0, longestList)
    this.#inWork = []
  }

  /** As kube-proxy does it: of all slices of the Service, not only of the one that is gone. */
  #forget(service: string): void {
    if (this.#waiting.length > 0)
      this.#waiting = this.#waiting.filter((trigger) => trigger.service !== service)
  }
}

interface Trigger {
  /** `namespace/name`. */
  readonly service: string
  readonly ms: number
}
