import type { IpAddress, IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import type { Listener, PortPlace, Ports, WatchedPort } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import { askPorts, type PortReports, releaseStored } from './port-reports.js'

export interface WatchedPortsOptions {
  readonly family: IpFamily
  readonly ports: Ports
  readonly reports: PortReports
  /** The addresses of this machine that serve node ports. May reject with KernelError. */
  readonly nodePortAddresses: () => Promise<readonly IpAddress[]>
  readonly clock: Pick<Clock, 'now'>
}

/** Time until a port that another program has is checked again, and until a kernel that refused is asked again. */
const recheckMs = 10_000

/**
 * Reports programs of this machine that listen on node ports. Rules take the traffic before their sockets. The kernel is asked only about
 * new node ports, and about those that a program had.
 */
export class WatchedPorts {
  readonly #options: WatchedPortsOptions
  readonly #ports = new Map<ServicePortKey, WatchedPort>()
  /** Service ports to check. */
  readonly #due = new Set<ServicePortKey>()
  /** Service ports whose node port another program has. */
  readonly #inUse = new Set<ServicePortKey>()
  #recheckDueMs = 0
  #isRefused = false
  #isStoreEmpty = false

  constructor(options: WatchedPortsOptions) {
    this.#options = options
  }

  /** The service port was compiled again; undefined: it was removed. */
  note(key: ServicePortKey, decided: Route | undefined): void {
    const former = this.#ports.get(key)
    const next = watchedPort(decided)
    if (former?.port === next?.port && former?.protocol === next?.protocol) return
    if (former !== undefined && this.#inUse.delete(key))
      this.#options.reports.forget(key, this.#placeOf(former))
    if (next === undefined) {
      this.#ports.delete(key)
      this.#due.delete(key)
    } else {
      this.#ports.set(key, next)
      this.#due.add(key)
    }
  }

  /** Checks what is due. `isComplete`: all objects are known. */
  async run({ isComplete }: { readonly isComplete: boolean }): Promise<void> {
    const { clock } = this.#options
    // An earlier agent may have held ports.
    if (isComplete && !this.#isStoreEmpty) this.#isStoreEmpty = await releaseStored(this.#options, new Set())
    const isRecheckDue = clock.now() >= this.#recheckDueMs
    if (isRecheckDue) for (const key of this.#inUse) this.#due.add(key)
    if (this.#due.size === 0 || (this.#isRefused && !isRecheckDue)) return
    if (isRecheckDue) this.#recheckDueMs = clock.now() + recheckMs
    await this.#check()
  }

  async #check(): Promise<void> {
    const { family, ports, reports } = this.#options
    const asked = new Map([...this.#due].flatMap((key) => this.#entryOf(key)))
    const wanted = [...new Map([...asked.values()].map((port) => [nameOf(port), port])).values()]
    const listeners = await askPorts(reports, 'check of node ports', () => ports.find(family, wanted))
    const byPort = listeners && (await this.#onNodePorts(listeners))
    this.#isRefused = byPort === undefined
    if (byPort === undefined) return
    this.#due.clear()
    for (const [key, port] of asked) {
      const listener = byPort.get(nameOf(port))
      if (listener === undefined) {
        if (this.#inUse.delete(key)) reports.free(key, this.#placeOf(port))
      } else {
        this.#inUse.add(key)
        reports.inUse(key, this.#placeOf(port), listener)
      }
    }
  }

  /** The listeners of other programs at addresses that serve node ports, one for each port. undefined: the addresses are not known. */
  async #onNodePorts(listeners: readonly Listener[]): Promise<ReadonlyMap<string, Listener> | undefined> {
    const others = listeners.filter(({ isHeld, isOwn }) => !isHeld && !isOwn)
    const { nodePortAddresses, reports } = this.#options
    const addresses = others.some(({ address }) => address !== undefined)
      ? await askPorts(reports, 'addresses of node ports', nodePortAddresses)
      : []
    if (addresses === undefined) return undefined
    const found = new Map<string, Listener>()
    for (const listener of others) {
      const { address } = listener
      if (address === undefined || addresses.includes(address)) found.set(nameOf(listener), listener)
    }
    return found
  }

  #entryOf(key: ServicePortKey): readonly (readonly [ServicePortKey, WatchedPort])[] {
    const port = this.#ports.get(key)
    return port === undefined ? [] : [[key, port]]
  }

  #placeOf({ protocol, port }: WatchedPort): PortPlace {
    return { family: this.#options.family, protocol, address: undefined, port }
  }
}

function nameOf({ protocol, port }: { readonly protocol: string; readonly port: number }): string {
  return `${protocol} ${port}`
}

/** The node port of a service port; undefined: none, or one of SCTP, about which the kernel cannot be asked. */
function watchedPort(decided: Route | undefined): WatchedPort | undefined {
  if (decided === undefined || decided.nodePort === 0 || decided.protocol === 'SCTP') return undefined
  return { protocol: decided.protocol === 'TCP' ? 'tcp' : 'udp', port: decided.nodePort }
}
