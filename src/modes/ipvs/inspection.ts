// The answers of one family's pipeline about Services, for people: `viaduct explain`, counters, flows and differences.
import type { CounterReading, PacketRules, ServiceFlow } from '../../engine/index.js'
import type { Frontend, Route } from '../../routing/index.js'
import type { ForeignAddresses, NatGuard } from '../../layers/vips/index.js'
import type { IpvsPipelineOptions } from './pipeline-options.js'
import type { IpvsPolicies } from './policies.js'
import { readCounters } from './read-counters.js'
import { flowsOf } from './read-flows.js'
import type { IpvsLedger } from './tables/ledger.js'

export interface IpvsInspectionOptions extends Pick<
  IpvsPipelineOptions,
  'family' | 'kernel' | 'clock' | 'scheduling'
> {
  readonly ledger: IpvsLedger
  readonly policies: IpvsPolicies
  readonly foreign: ForeignAddresses
  readonly guard: NatGuard
}

export class IpvsInspection {
  readonly #options: IpvsInspectionOptions

  constructor(options: IpvsInspectionOptions) {
    this.#options = options
  }

  async readFlows(): Promise<AsyncIterable<ServiceFlow>> {
    const { family, kernel } = this.#options
    return flowsOf(kernel.ipvs.connections(family))
  }

  async readCounters(): Promise<CounterReading> {
    const { family, kernel, clock, scheduling, policies, foreign, ledger } = this.#options
    return await readCounters(family, { ipvs: kernel.ipvs, clock }, (decided) => {
      const servers = policies.present(foreign.view(decided), scheduling.settings)
      return servers.filter(({ key }) => ledger.ownerOf(key) === decided.key)
    })
  }

  describe(decided: Route, isLost?: (frontend: Frontend) => boolean): readonly string[] {
    const { policies, foreign, scheduling } = this.#options
    return policies.describe(foreign.view(decided), scheduling.settings, isLost)
  }

  /** undefined before the facts about the node are known. */
  packetRules(): PacketRules | undefined {
    const { policies, guard, foreign } = this.#options
    const rules = policies.packetRules()
    return (
      rules && {
        ...rules,
        guardOf: (address) => guard.placeOf(address),
        foreignHolder: (port, address) => foreign.holderOf(port, address),
      }
    )
  }

  /** As `Pipeline.differences`. */
  async differences(decided: Route): Promise<readonly string[] | undefined> {
    const { policies, foreign, scheduling, kernel } = this.#options
    return await policies.differences(foreign.view(decided), scheduling.settings, kernel.ipvs)
  }
}
