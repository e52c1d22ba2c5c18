import type { ApiError } from '../../api/index.js'
import { StateReporter } from '../../log.js'
import { KnownObjects } from './known-objects.js'
import type { ListedPart } from './listing-progress.js'
import type { Reflector, ReflectorOptions } from './reflector.js'
import { linkNameOf, type Resource } from './resources.js'

/** Opens the link of one resource. The source adds what all links have. */
export type OpenReflector = (
  options: Pick<ReflectorOptions, 'resource' | 'known' | 'finalStatuses' | 'deliver' | 'progressed'>,
) => Reflector

/** The parts that all optional links of a source share. */
export interface LinkParts extends Pick<
  ReflectorOptions,
  'clock' | 'random' | 'log' | 'problems' | 'links' | 'signal'
> {
  readonly open: OpenReflector
}

export interface OptionalLinkOptions extends LinkParts, Pick<ReflectorOptions, 'deliver' | 'progressed'> {
  /** Versions of one kind: the next one is asked for where the server does not have the one before (404). */
  readonly resources: readonly [Resource, ...Resource[]]
  /** Statuses of refusals after which the agent works without the objects. */
  readonly finalStatuses: readonly number[]
  /** The lines of the log when the objects cannot be read, and when they can again. */
  readonly lines: Record<'problemLine' | 'recovery', string>
  /** The reason of a refusal, and the remedy. */
  readonly reasonOf: (refusal: ApiError) => string
}

const notFound = 404
/** An upgrade of the API server, or a change of its roles, takes effect after this time. */
const retryMs = { least: 300_000, spread: 300_000 }

/**
 * Follows objects where the API server has them and lets this agent read them. Where it does not, the agent works with those that it
 * knows from before, if any, and asks again every 5 to 10 minutes.
 */
export class OptionalLink implements ListedPart {
  readonly #options: OptionalLinkOptions
  readonly #name: string
  readonly #known: KnownObjects
  readonly #refusals: StateReporter
  #isListed = false

  constructor(options: OptionalLinkOptions) {
    this.#options = options
    const [resource] = options.resources
    this.#name = linkNameOf(resource)
    this.#known = new KnownObjects(resource, options.problems)
    this.#refusals = new StateReporter({
      log: options.log,
      level: 'warn',
      ...options.lines,
      count: () => {},
    })
  }

  /** All objects have been delivered once, or the server has refused them. */
  get isListed(): boolean {
    return this.#isListed
  }

  get isComplete(): boolean {
    return this.#known.isComplete
  }

  /** Resolves when the signal has aborted. Rejects only with an error of `deliver`, or a bug. */
  async run(): Promise<undefined> {
    const { signal, links, reasonOf, progressed } = this.#options
    while (!signal.aborted) {
      const refusal = await this.#follow()
      if (refusal === undefined) return
      links.forget(this.#name)
      this.#refusals.report(this.#name, { text: `${reasonOf(refusal)} (${refusal.message})` })
      this.#isListed = true
      progressed()
      await this.#rest()
    }
  }

  /** Resolves with the last refusal when no version can be read; undefined: the signal has aborted. */
  async #follow(): Promise<ApiError | undefined> {
    const { resources, finalStatuses, open, deliver, progressed } = this.#options
    let refusal: ApiError | undefined
    for (const resource of resources) {
      const reflector = open({
        resource,
        known: this.#known,
        finalStatuses,
        deliver,
        progressed: () => {
          if (reflector.isListed) {
            this.#refusals.report(this.#name, undefined)
            this.#isListed = true
          }
          progressed()
        },
      })
      refusal = await reflector.run()
      if (refusal?.status !== notFound) return refusal
    }
    return refusal
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
