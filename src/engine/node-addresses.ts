import type { IpAddress, IpFamily } from '../address.js'
import { machineAddresses, readMachineAddresses } from '../host/index.js'
import type { LinkEvent, Links, Routes } from '../kernel/index.js'
import { type NodeFacts, nodePortAddressesOf, nodePortDestinations } from '../node/index.js'
import type { TrafficConfig } from './family-context.js'

export interface NodeAddressesOptions {
  readonly family: IpFamily
  readonly config: TrafficConfig
  readonly links: Links
  readonly routes: Routes
  /** The addresses are read even if node ports are served at all of them. */
  readonly needsMachine?: boolean
  /** This node, as it is now. */
  readonly node: { readonly facts: NodeFacts }
}

/** The machine's own addresses of one family, for a mode whose rules name them only if the configuration limits node ports to some. */
export class NodeAddresses {
  readonly #options: NodeAddressesOptions
  #machine: readonly IpAddress[] = []
  #isCurrent = false
  /** The device that holds the VIPs of ipvs mode, at the last reading: its addresses are not the machine's own. */
  #vipDevice: number | undefined

  constructor(options: NodeAddressesOptions) {
    this.#options = options
  }

  /** The last read addresses, even if they may have changed since; empty before the first read, and while the rules name none. */
  get last(): readonly IpAddress[] {
    return this.#machine
  }

  /** The next `read` asks the kernel. */
  forget(): void {
    this.#isCurrent = false
  }

  /** `read` has something to do. */
  get isReadDue(): boolean {
    return !this.#isCurrent
  }

  /** Returns whether the rules may differ now. */
  applyLinks(events: readonly LinkEvent[]): boolean {
    const { family } = this.#options
    if (!this.#areUsed) return false
    const isConcerned = events.some(
      (event) =>
        event.kind === 'overrun' ||
        (event.kind === 'address' && event.family === family && event.index !== this.#vipDevice),
    )
    if (isConcerned) this.forget()
    return isConcerned
  }

  /** Reads the addresses if they may have changed. Throws KernelError. */
  async read(): Promise<void> {
    if (this.#isCurrent) return
    // Before the reading: a change during it is read by the next one.
    this.#isCurrent = true
    try {
      if (!this.#areUsed) this.#machine = []
      else {
        const { addresses, vipDevice } = await readMachineAddresses(this.#options.family, this.#options)
        this.#machine = addresses
        this.#vipDevice = vipDevice
      }
    } catch (error) {
      this.#isCurrent = false
      throw error
    }
  }

  /** The addresses that serve node ports now, read from the kernel. Throws KernelError. */
  async destinations(): Promise<readonly IpAddress[]> {
    const { family, node } = this.#options
    const facts = { ...this.#options, node: node.facts }
    return nodePortDestinations(facts, await machineAddresses(family, this.#options))
  }

  get #areUsed(): boolean {
    const { family, config, needsMachine = false, node } = this.#options
    return needsMachine || nodePortAddressesOf({ family, config, node: node.facts }, []) !== 'all'
  }
}
