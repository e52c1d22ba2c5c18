// The settings of a mode in one family, and the facts that they depend on.
import { isDeepStrictEqual } from 'node:util'
import type { IpAddress } from '../address.js'
import type { LinkEvent } from '../kernel/index.js'
import type { FamilyTracker } from '../model/index.js'
import type { NodeChange } from '../node/index.js'
import type { FamilyContext, FamilyFacts } from './family-context.js'
import type { FamilyMode } from './family-mode.js'
import { NodeAddresses } from './node-addresses.js'

export interface FamilySettingsOptions<S, D> extends Pick<
  FamilyContext,
  'family' | 'config' | 'links' | 'routes' | 'node'
> {
  readonly needsMachine?: boolean
  readonly tracker: Pick<FamilyTracker, 'endpointCount' | 'markAll' | 'serviceCidrs'>
  readonly mode: () => FamilyMode<S, D>
}

/** A cluster with more endpoints than this is large, as in kube-proxy. */
const largeAbove = 1000

/** A large cluster is small again at this size. If the size varies around `largeAbove`, the rules are not all written each time. */
const smallBelow = 800

/** Knows when the settings of a mode change. */
export class FamilySettings<S, D> {
  readonly #options: FamilySettingsOptions<S, D>
  readonly #addresses: NodeAddresses
  #current: S | undefined
  /** The facts that `#current` was made from. */
  #facts: FamilyFacts | undefined
  /** The layer refused the last settings. What it has now is not known. */
  #isRefused = false

  constructor(options: FamilySettingsOptions<S, D>) {
    this.#options = options
    this.#addresses = new NodeAddresses(options)
  }

  /** The machine's addresses may have changed since they were read, or could not be read. */
  get isReadDue(): boolean {
    return this.#addresses.isReadDue
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
    if (this.#current === undefined || this.#facts === undefined) return true
    if (this.#options.tracker.serviceCidrs === this.#facts.serviceCidrs) return false
    const facts = this.#factsNow()
    if (!isDeepStrictEqual(this.#options.mode().settings(facts), this.#current)) return true
    this.#facts = facts
    return false
  }

  /** The addresses that serve node ports now, read from the kernel. Throws KernelError. */
  readonly nodePortAddresses = async (): Promise<readonly IpAddress[]> => {
    const own = this.#current && this.#options.mode().nodePortAddresses?.(this.#current)
    return own ?? (await this.#addresses.destinations())
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
    const facts = this.#factsNow()
    if (!this.#isRefused && this.#facts !== undefined && areSame(facts, this.#facts)) return false
    this.#facts = facts
    const settings = mode.settings(facts)
    if (!this.#isRefused && isDeepStrictEqual(settings, former)) return false
    this.#isRefused = (await mode.layer.configure?.(settings, facts)) === false
    if (this.#isRefused) return 'failed'
    this.#current = settings
    if (former !== undefined && !isDeepStrictEqual(mode.routeSettings(settings), mode.routeSettings(former)))
      tracker.markAll()
    return true
  }

  #factsNow(): FamilyFacts {
    const { node, tracker } = this.#options
    const machine = this.#addresses.last
    return {
      node: node.facts,
      machine,
      isLarge: tracker.endpointCount > (this.#facts?.isLarge === true ? smallBelow : largeAbove),
      serviceCidrs: tracker.serviceCidrs,
    }
  }
}

/** The holders of these facts replace them as a whole. */
function areSame(some: FamilyFacts, others: FamilyFacts): boolean {
  return (
    some.node === others.node &&
    some.machine === others.machine &&
    some.isLarge === others.isLarge &&
    some.serviceCidrs === others.serviceCidrs
  )
}
