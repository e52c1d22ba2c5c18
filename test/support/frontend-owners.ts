import type { PacketRules, PipelineView } from '../../src/engine/index.js'
import type { ServiceView } from '../../src/model/index.js'
import type { NodeFacts } from '../../src/node/index.js'
import { decide, FrontendOwners, type Taken } from '../../src/routing/index.js'
import type { IpAddress } from '../../src/address.js'

interface Decided {
  readonly services: Pick<ServiceView, 'servicePorts'> & Taken['services']
  readonly node: NodeFacts
  readonly machine: readonly IpAddress[]
  readonly rules: Pick<PacketRules, 'foreignHolder'>
}

/** The view with the owners of frontends, as a pass of the engine decides on them. */
export function withOwners<V extends Decided>(view: V): V & Pick<PipelineView, 'ownerOf'> {
  const { services, node, machine, rules } = view
  const owners = new FrontendOwners()
  for (const port of services.servicePorts()) {
    const taken = { places: node.places, services }
    const { route } = decide(port, [], node, { taken, machine })
    const isHere = (address: IpAddress): boolean => rules.foreignHolder?.(port, address) === undefined
    if (route !== undefined)
      owners.claim(port, {
        ...route,
        externalIPs: route.externalIPs.filter(isHere),
        loadBalancerIPs: route.loadBalancerIPs.filter(isHere),
      })
  }
  return { ...view, ownerOf: (frontend) => owners.ownerOf(frontend) }
}
