// The settings of a mode in one family, and the facts that they depend on.
import { isDeepStrictEqual } from 'node:util'
import type { IpAddress } from '../address.js'
import type { LinkEvent } from '../kernel/index.js'
import { ServiceCidrs, type Tracker } from '../model/index.js'
import type { NodeChange } from '../node/index.js'
import type { ObjectEvent } from '../source/index.js'
import type { FamilyContext, FamilyFacts } from './family-context.js'
import type { FamilyMode } from './family-mode.js'
import { NodeAddresses } from './node-addresses.js'

export interface FamilySettingsOptions<S, D> extends Pick<
  FamilyContext,
  'family' | 'config' | 'links' | 'routes' | 'node'
> {
  readonly needsMachine?: boolean
  readonly tracker: Pick<Tracker, 'endpointCount' | 'markAll'>
  readonly mode: () => FamilyMode<S, D>
}

/** Knows when the settings of a mode change. */
export class FamilySettings<S, D> {
  readonly #options: FamilySettingsOptions<S, D>
  readonly #addresses: NodeAddresses
  readonly #serviceCidrs: ServiceCidrs
  #current: S | undefined
  #areFactsNew = false
  /** The layer refused the last settings. What it has now is not known. */
  #isRefused = false

  constructor(options: FamilySettingsOptions<S, D>) {
    this.#options = options
    this.#addresses = new NodeAddresses(options)
    this.#serviceCidrs = new ServiceCidrs(options.family)
  }

  /** Those that the layer has; undefined: none yet. */
  get current(): S | undefined {
    return this.#current
  }

  /** The machine's own addresses, as last read; empty while the mode needs none. */
  get machine(): readonly IpAddress[] {
    return this.#addresses.last
  }

  /** The settings are to be renewed. */
  get areDue(): boolean {
    return this.#current === undefined || this.#areFactsNew
  }

  /** The addresses that serve node ports now, read from the kernel. Throws KernelError. */
  readonly nodePortAddresses = async (): Promise<readonly IpAddress[]> => await this.#addresses.destinations()

  apply(events: readonly ObjectEvent[]): void {
    const areCidrsNew = events.filter((event) => this.#serviceCidrs.apply(event)).length > 0
    if (areCidrsNew && !isDeepStrictEqual(this.#now(), this.#current)) this.#areFactsNew = true
  }

  applyNode({ modeSettings }: NodeChange): boolean {
    if (modeSettings) this.#addresses.forget()
    return modeSettings
  }

  applyLinks(events: readonly LinkEvent[]): boolean {
    return this.#addresses.applyLinks(events)
  }

  /** Reads what the settings depend on, if it may have changed. Throws KernelError. */
  async read(): Promise<void> {
    await this.#addresses.read()
  }

  /**
   * Brings changed settings to the layer. True: they have changed. A change that routes depend on makes all routes dirty. `failed`: the layer
   * has to get them again.
   */
  async renew(): Promise<boolean | 'failed'> {
    const { tracker } = this.#options
    const mode = this.#options.mode()
    const former = this.#current
    this.#areFactsNew = false
    const settings = this.#now()
    if (!this.#isRefused && isDeepStrictEqual(settings, former)) return false
    this.#isRefused = (await mode.layer.configure?.(settings, this.#facts)) === false
    if (this.#isRefused) return 'failed'
    this.#current = settings
    if (former !== undefined && !isDeepStrictEqual(mode.routeSettings(settings), mode.routeSettings(former)))
      tracker.markAll()
    return true
  }

  #now(): S {
    return this.#options.mode().settings(this.#facts)
  }

  get #facts(): FamilyFacts {
    const { node, tracker } = this.#options
    return {
      node: node.facts,
      machine: this.#addresses.last,
      endpoints: tracker.endpointCount,
      serviceCidrs: this.#serviceCidrs.networks,
    }
  }
}
