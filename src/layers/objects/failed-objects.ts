import type { IpFamily } from '../../address.js'
import type { KernelError } from '../../errors.js'
import type { Confirmation } from './object-batch.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { Clock } from '../../clock.js'
import { logFamily } from '../../engine/index.js'
import { RetryQueue } from './retry-queue.js'

export interface FailedObjectsOptions<T, K> {
  readonly family: IpFamily
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly problems: StateReporter
  /** Identity of an object. */
  readonly keyOf: (object: T) => K
  /** Key of its problem. */
  readonly nameOf: (object: T) => string
  /** `namespace/name` of the Services that need the object; empty: no Service needs it any more. */
  readonly servicesOf: (object: T) => readonly string[]
}

/**
 * Objects of one kind that the kernel refuses. Each refusal is counted. Each object is reported with the names of its Services, and
 * is due again with back-off.
 */
export class FailedObjects<T extends { readonly isStale: boolean }, K> {
  readonly #options: FailedObjectsOptions<T, K>
  readonly #retries: RetryQueue<K>
  /** Errors of the pass in progress. */
  readonly #refused = new Map<K, KernelError[]>()
  readonly #surprising = new Map<K, KernelError[]>()
  /** Objects whose last attempt was a surprise. */
  readonly #surprised = new Set<K>()

  constructor(options: FailedObjectsOptions<T, K>) {
    this.#options = options
    this.#retries = new RetryQueue(options.clock)
  }

  due(): readonly K[] {
    return this.#retries.due()
  }

  nextInMs(): number | undefined {
    return this.#retries.nextInMs()
  }

  /** Takes in failures, and counts them; `settle` reports them. */
  note({ refusals, surprises }: Confirmation<T>): void {
    for (const { target, error } of refusals) this.#push(this.#refused, target, error)
    for (const { target, error } of surprises) this.#push(this.#surprising, target, error)
  }

  /** Ends a pass that touched these objects. One that was not refused has recovered, unless it is stale. */
  settle(objects: Iterable<T>): void {
    for (const object of objects) this.#settle(object)
    this.#refused.clear()
    this.#surprising.clear()
  }

  #push(map: Map<K, KernelError[]>, object: T, error: KernelError): void {
    const key = this.#options.keyOf(object)
    const errors = map.get(key)
    if (errors === undefined) map.set(key, [error])
    else errors.push(error)
    this.#options.metrics.kernelError(error.operation, error.code)
  }

  #settle(object: T): void {
    const key = this.#options.keyOf(object)
    const errors = [...(this.#refused.get(key) ?? []), ...this.#repeatedSurprises(key, object.isStale)]
    const wasFailing = this.#retries.has(key)
    if (errors.length > 0) this.#reportFailure(object, errors)
    else if (wasFailing && !object.isStale) this.#reportRecovery(object)
    // A stale object that failed keeps waiting, since no operation was tried.
    if (errors.length > 0 || (wasFailing && object.isStale)) this.#retries.fail(key)
    else this.#retries.settle(key)
  }

  /** The reconcile repairs the first surprise. A repeated surprise is a refusal. */
  #repeatedSurprises(key: K, isStale: boolean): readonly KernelError[] {
    const errors = this.#surprising.get(key)
    if (errors === undefined) {
      if (!isStale) this.#surprised.delete(key)
      return []
    }
    if (this.#surprised.has(key)) return errors
    this.#surprised.add(key)
    return []
  }

  #reportRecovery(object: T): void {
    const { nameOf, problems, servicesOf } = this.#options
    // Without a Service there is no recovery to report.
    if (servicesOf(object).length === 0) problems.forget(nameOf(object))
    else problems.report(nameOf(object), undefined)
  }

  #reportFailure(object: T, errors: readonly KernelError[]): void {
    const { family, nameOf, problems, servicesOf } = this.#options
    const service = [...new Set(servicesOf(object))].join(', ')
    const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
    const text = `${service === '' ? 'a leftover' : `Service ${service}`}: ${errors[0]?.message ?? ''}${more}`
    const fields = { service, ipFamily: logFamily(family), code: errors[0]?.code }
    problems.report(nameOf(object), { text, fields })
  }
}
