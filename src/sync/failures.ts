import type { IpAddress, IpFamily } from '../address.js'
import type { KernelError } from '../errors.js'
import { describeVirtualServer } from '../kernel/index.js'
import type { Entry, Vip } from '../ledger/index.js'
import type { StateReporter } from '../log.js'
import type { FamilyMetrics } from '../metrics.js'
import type { Clock } from './clock.js'
import { RetryQueue } from './retry-queue.js'
import { logFamily } from './sync-report.js'

export interface FailuresOptions {
  readonly family: IpFamily
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  readonly problems: StateReporter
}

const delays = { firstMs: 1000, maxMs: 30_000 }

/** What the kernel refuses: reported by Service name once per change, counted, tried again with back-off. */
export class Failures {
  readonly #options: FailuresOptions
  readonly #servers: RetryQueue<Entry>
  /** By address: the table forgets and makes VIPs anew. */
  readonly #vips: RetryQueue<IpAddress>
  /** Of the pass in progress. */
  readonly #refusedServers = new Map<Entry, KernelError[]>()
  readonly #refusedVips = new Map<IpAddress, KernelError[]>()

  constructor(options: FailuresOptions) {
    this.#options = options
    this.#servers = new RetryQueue(options.clock, delays)
    this.#vips = new RetryQueue(options.clock, delays)
  }

  dueServers(): readonly Entry[] {
    return this.#servers.due()
  }

  dueVips(): readonly IpAddress[] {
    return this.#vips.due()
  }

  nextInMs(): number | undefined {
    const times = [this.#servers.nextInMs(), this.#vips.nextInMs()].filter((ms) => ms !== undefined)
    return times.length === 0 ? undefined : Math.min(...times)
  }

  refuseServer(entry: Entry, error: KernelError): void {
    push(this.#refusedServers, entry, error)
    this.#options.metrics.kernelError(error.operation, error.code)
  }

  refuseVip(vip: Vip, error: KernelError): void {
    push(this.#refusedVips, vip.address, error)
    this.#options.metrics.kernelError(error.operation, error.code)
  }

  /** Ends a pass that touched these: what was not refused is well again. */
  settle(touched: { readonly entries: readonly Entry[]; readonly vips: Iterable<Vip> }): void {
    for (const entry of touched.entries) this.#settleServer(entry)
    for (const vip of touched.vips) this.#settleVip(vip)
    this.#refusedServers.clear()
    this.#refusedVips.clear()
  }

  /** A whole batch or dump failed; undefined: the kernel answers again. */
  reportKernel(error: KernelError | undefined): void {
    const { family, metrics, problems } = this.#options
    if (error !== undefined) metrics.kernelError(error.operation, error.code)
    const text = `${logFamily(family)}: ${error?.message ?? ''}`
    problems.report(`kernel ${family}`, error && { text, fields: { ipFamily: logFamily(family) } })
  }

  #settleServer(entry: Entry): void {
    const errors = this.#refusedServers.get(entry)
    const key = describeVirtualServer(entry.key)
    const isNews = errors !== undefined || this.#servers.has(entry)
    if (errors !== undefined) this.#servers.fail(entry)
    else this.#servers.settle(entry)
    if (isNews) this.#report(key, errors, entry.wanted === undefined ? [] : [entry.service])
  }

  #settleVip(vip: Vip): void {
    const errors = this.#refusedVips.get(vip.address)
    const isNews = errors !== undefined || this.#vips.has(vip.address)
    if (errors !== undefined) this.#vips.fail(vip.address)
    else this.#vips.settle(vip.address)
    if (isNews)
      this.#report(
        `vip ${vip.address}`,
        errors,
        vip.holders.map(({ service }) => service),
      )
  }

  #report(key: string, errors: readonly KernelError[] | undefined, services: readonly string[]): void {
    const { family, problems } = this.#options
    const [first] = errors ?? []
    if (first === undefined) {
      // Without a Service there is nobody for whom it works again.
      if (services.length === 0) problems.forget(key)
      else problems.report(key, undefined)
      return
    }
    const service = [...new Set(services)].join(', ')
    const more = errors !== undefined && errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
    const text = `${service === '' ? 'a leftover' : `Service ${service}`}: ${first.message}${more}`
    problems.report(key, { text, fields: { service, ipFamily: logFamily(family), code: first.code } })
  }
}

function push<K>(map: Map<K, KernelError[]>, key: K, error: KernelError): void {
  const errors = map.get(key)
  if (errors === undefined) map.set(key, [error])
  else errors.push(error)
}
