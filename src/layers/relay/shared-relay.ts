import { isDeepStrictEqual } from 'node:util'
import { type Cidr, cidrContains, type IpAddress, type IpFamily, parseCidr } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Relay, RelayCounters } from '../../kernel/index.js'
import type { LocalDetector } from '../../node/index.js'
import { hostCidr } from './compile/compile.js'

/** The clients of one family that are near: this machine and its own pods. */
export interface NearClients {
  readonly networks: readonly Cidr[]
  readonly interfaces: readonly string[]
}

/** `machine`: the machine's own addresses. undefined: pods cannot be recognized. */
export function nearClients(machine: readonly IpAddress[], detector: LocalDetector | undefined): NearClients {
  const pods = detector?.kind === 'cidr' ? [detector.cidr] : []
  return {
    networks: [...machine.map(networkOfOwn), ...pods],
    interfaces: detector?.kind === 'interface' ? [detector.name] : [],
  }
}

/** All of 127.0.0.0/8 is this machine, not only the address that its interface has. */
function networkOfOwn(address: IpAddress): Cidr {
  return loopback !== undefined && cidrContains(loopback, address) ? loopback : hostCidr(address)
}

const loopback = parseCidr('127.0.0.0/8')

/** The settings of one family. */
export interface FamilySettings {
  readonly near: NearClients
  /** The addresses of this machine that serve node ports. */
  readonly nodePortAddresses: readonly IpAddress[]
}

const noSettings: FamilySettings = { near: { networks: [], interfaces: [] }, nodePortAddresses: [] }

/** The relay as the pipelines of both families share it: one numbering of services, one set of settings. */
export class SharedRelay {
  readonly relay: Relay
  readonly #udpIdleMs: number
  #lastId = 0
  readonly #settings = new Map<IpFamily, FamilySettings>()

  constructor(relay: Relay, { udpIdleMs }: { readonly udpIdleMs: number }) {
    this.relay = relay
    this.#udpIdleMs = udpIdleMs
  }

  /** An id that no service of the relay has. 32 bits last for a year of 100 new service ports per second. */
  readonly nextId = (): number => ++this.#lastId

  /** undefined: the relay is not in use, or does not answer. */
  async counters(): Promise<RelayCounters | undefined> {
    if (this.#settings.size === 0) return undefined
    const counters = await orRefusal(() => this.relay.counters())
    return counters instanceof KernelError ? undefined : counters
  }

  /** Replaces the settings of a family, if they differ. Throws KernelError. */
  async configure(family: IpFamily, settings: FamilySettings): Promise<void> {
    const former = this.#settings.get(family)
    if (isDeepStrictEqual(former, settings)) return
    this.#settings.set(family, settings)
    const all = (['ipv4', 'ipv6'] as const).map((each) => this.#settings.get(each) ?? noSettings)
    try {
      await this.relay.configure({
        nearNetworks: all.flatMap(({ near }) => near.networks),
        nearInterfaces: [...new Set(all.flatMap(({ near }) => near.interfaces))],
        udpIdleMs: this.#udpIdleMs,
        nodePortAddresses: all.flatMap(({ nodePortAddresses }) => nodePortAddresses),
      })
    } catch (error) {
      // The next call tries again.
      this.#settings.delete(family)
      throw error
    }
  }
}
