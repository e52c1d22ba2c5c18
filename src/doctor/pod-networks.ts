// The networks of the cluster's pods, as far as they are known.
import { type Cidr, cidrContains, type IpFamily, parseCidr } from '../address.js'
import { AddressCursor } from '../kernel/index.js'
import { field, jsonOf, nodeAnswer } from './ask-api.js'
import type { Examined, Verdict } from './check.js'

/**
 * Those of the configuration, and those of the Node. Empty: the Node names none. A verdict: the configuration names none, and the API
 * server does not answer.
 */
export async function podNetworks(node: Examined): Promise<readonly Cidr[] | Verdict> {
  const { clusterCIDR } = node.config
  const answer = await nodeAnswer(node)
  if ('seen' in answer) return clusterCIDR.length === 0 && answer.status === 'unknown' ? answer : clusterCIDR
  const texts = field(field(jsonOf(answer.body), 'spec'), 'podCIDRs')
  const own = (Array.isArray(texts) ? texts : []).flatMap((text) => parseCidr(String(text)) ?? [])
  return [...clusterCIDR, ...own]
}

/** A bridge that has an address of the pods' networks of a family, as those of pods do. */
export interface PodBridge {
  readonly name: string
  readonly family: IpFamily
}

/** The bridges of pods, once for each family. */
export async function podBridges(
  { kernel }: Pick<Examined, 'kernel'>,
  networks: readonly Cidr[],
): Promise<readonly PodBridge[]> {
  const found: PodBridge[] = []
  for (const link of await kernel.links.list()) {
    if (link.kind !== 'bridge') continue
    for (const family of ['ipv4', 'ipv6'] as const) {
      const cursor = new AddressCursor(await kernel.routes.dumpAddresses(family, link.index))
      const isOfPods = Array.from({ length: cursor.length }, (_, index) => cursor.address(index)).some(
        (address) => networks.some((network) => cidrContains(network, address)),
      )
      if (isOfPods) found.push({ name: link.name, family })
    }
  }
  return found
}
