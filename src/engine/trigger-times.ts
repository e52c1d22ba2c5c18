import type { IpFamily } from '../address.js'
import type { Observation } from '../metrics/index.js'
import type { Change } from './changes.js'

/** Bound of the list while the kernel refuses. More entries add no information. */
const longestList = 10_000

/**
 * The times at which endpoints of one family changed in the cluster, by their EndpointSlices. Each is kept until its change is in
 * the kernel (F-122). Times are Unix milliseconds.
 */
export class TriggerTimes {
  readonly #addressType: 'IPv4' | 'IPv6'
  readonly #startMs: number
  /** Changes that no run has begun with. */
  #waiting: Trigger[] = []
  #inWork: Trigger[] = []

  /** `startMs`: the time at which the pipeline opened. A change before it would measure the absence of the agent, not a latency. */
  constructor(family: IpFamily, startMs: number) {
    this.#addressType = family === 'ipv4' ? 'IPv4' : 'IPv6'
    this.#startMs = startMs
  }

  note(change: Change): void {
    if (change.type === 'slice-gone') this.#forget(change.service)
    if (change.type !== 'set' && change.type !== 'replaced') return
    if (change.object.kind !== 'EndpointSlice') return
    const { namespace, serviceName, lastChangeMs, addressType } = change.object
    if (serviceName === undefined || lastChangeMs === undefined || lastChangeMs <= this.#startMs) return
    if (addressType === this.#addressType && this.#waiting.length < longestList)
      this.#waiting.push({ service: `${namespace}/${serviceName}`, ms: lastChangeMs })
  }

  /** The run in progress, or the one that begins, is for all waiting changes too. */
  join(): void {
    if (this.#waiting.length === 0) return
    this.#inWork = this.#inWork.concat(this.#waiting).slice(0, longestList)
    this.#waiting = []
  }

  /** The kernel has all changes of the run. */
  settle(nowMs: number, latency: Observation): void {
    if (this.#inWork.length === 0) return
    // Clocks of two machines may differ.
    for (const { ms } of this.#inWork) latency.observe(Math.max(0, nowMs - ms) / 1000)
    this.#inWork = []
  }

  /** The run failed: its changes wait again. */
  waitOn(): void {
    if (this.#inWork.length === 0) return
    this.#waiting = this.#inWork.concat(this.#waiting).slice(0, longestList)
    this.#inWork = []
  }

  /**
   * Forgets the changes of all slices of the Service, not only of the removed slice, as kube-proxy does. The removal may join the run in
   * progress, so the changes of that run count too.
   */
  #forget(service: string): void {
    const isOther = (trigger: Trigger): boolean => trigger.service !== service
    if (this.#waiting.length > 0) this.#waiting = this.#waiting.filter(isOther)
    if (this.#inWork.length > 0) this.#inWork = this.#inWork.filter(isOther)
  }
}

interface Trigger {
  /** `namespace/name`. */
  readonly service: string
  readonly ms: number
}
