import type { ApiError } from '../../api/index.js'
import type { Clock } from '../../clock.js'
import { StateReporter, type Log } from '../../log.js'
import type { ObjectEvent } from '../objects.js'
import { KnownObjects } from './known-objects.js'
import type { Reflector, ReflectorOptions } from './reflector.js'
import { serviceCidrResources } from './resources.js'

export interface ServiceCidrLinksOptions {
  readonly open: (
    options: Pick<ReflectorOptions, 'resource' | 'known' | 'finalStatuses' | 'deliver' | 'progressed'>,
  ) => Reflector
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  readonly log: Log
  /** Reports objects that cannot be used. */
  readonly problems: StateReporter
  /** Reports whether the API server answers. */
  readonly links: StateReporter
  readonly signal: AbortSignal
  readonly deliver: (events: readonly ObjectEvent[]) => void
}

const kind = 'ServiceCIDR'
const [forbidden, notFound] = [403, 404]
/** An upgrade of the API server, or a change of its roles, takes effect after this time. */
const retryMs = { least: 300_000, spread: 300_000 }

/**
 * Follows ServiceCIDRs where the API server has them and lets this agent read them. Where it does not, the agent works without them,
 * and asks again every 5 to 10 minutes.
 */
export class ServiceCidrLinks {
  readonly #options: ServiceCidrLinksOptions
  readonly #known: KnownObjects
  readonly #refusals: StateReporter
  #isListed = false

  constructor(options: ServiceCidrLinksOptions) {
    this.#options = options
    this.#known = new KnownObjects(serviceCidrResources[0], options.problems)
    this.#refusals = new StateReporter({
      log: options.log,
      level: 'warn',
      problemLine: 'ServiceCIDRs are not read; packets to unused cluster IPs may not be dropped',
      recovery: 'ServiceCIDRs are read',
      count: () => {},
    })
  }

  /** Resolves when the signal has aborted. Rejects only with an error of `deliver`, or a bug. */
  async run(): Promise<void> {
    const { signal, links } = this.#options
    while (!signal.aborted) {
      const refusal = await this.#follow()
      if (refusal === undefined) return
      links.forget(kind)
      this.#refusals.report(kind, { text: `${reasonOf(refusal)} (${refusal.message})` })
      this.#noteListed()
      await this.#rest()
    }
  }

  /** Resolves with the last refusal when no version can be read; undefined: the signal has aborted. */
  async #follow(): Promise<ApiError | undefined> {
    let refusal: ApiError | undefined
    for (const resource of serviceCidrResources) {
      const reflector = this.#options.open({
        resource,
        known: this.#known,
        finalStatuses: [forbidden, notFound],
        deliver: this.#options.deliver,
        progressed: () => {
          if (!reflector.isListed) return
          this.#refusals.report(kind, undefined)
          this.#noteListed()
        },
      })
      refusal = await reflector.run()
      if (refusal?.status !== notFound) return refusal
    }
    return refusal
  }

  #noteListed(): void {
    if (this.#isListed) return
    this.#isListed = true
    this.#options.deliver([{ type: 'service-cidrs-listed' }])
  }

  async #rest(): Promise<void> {
    const { clock, random, signal } = this.#options
    await new Promise<void>((resolve) => {
      const end = (): void => {
        cancel()
        signal.removeEventListener('abort', end)
        resolve()
      }
      const cancel = clock.schedule(retryMs.least + retryMs.spread * random(), end)
      signal.addEventListener('abort', end)
    })
  }
}

function reasonOf({ status }: ApiError): string {
  if (status === notFound) return 'the API server has none (Kubernetes before 1.31, or the API is disabled)'
  return 'the account may not list and watch servicecidrs of networking.k8s.io: bind it to the role system:node-proxier of Kubernetes 1.33'
}
