import type { FamilyContext, FamilyFacts } from '../../engine/index.js'
import { areNodePortsEverywhere, localDetectorOf, nodePortSockets } from '../../node/index.js'
import { type NearClients, nearClients, type RelayRouteSettings } from '../../layers/relay/index.js'
import type { LocalDetector } from '../../node/index.js'

/** The settings of userspace mode. */
export interface UserspaceSettings extends RelayRouteSettings {
  readonly near: NearClients
  readonly localDetector: LocalDetector | undefined
}

export function userspaceSettings(
  { family, config }: Pick<FamilyContext, 'family' | 'config'>,
  { node, machine }: Pick<FamilyFacts, 'node' | 'machine'>,
): UserspaceSettings {
  const facts = { family, config, node }
  const localDetector = localDetectorOf(config, family, node)
  return {
    near: nearClients(machine, localDetector),
    localDetector,
    nodePortAddresses: nodePortSockets(facts, machine),
    servesAllAddresses: areNodePortsEverywhere(facts),
    nodeIP: node.addresses[family],
  }
}
