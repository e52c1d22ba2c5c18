// The networks of the cluster's pods, as far as they are known.
import { type Cidr, cidrContains, parseCidr } from '../address.js'
import { AddressCursor, type Link } from '../kernel/index.js'
import { field, jsonOf, nodeAnswer } from './ask-api.js'
import type { Examined } from './check.js'

/** Those of the configuration, and those of the Node. Empty: none is known. */
export async function podNetworks(node: Examined): Promise<readonly Cidr[]> {
  const answer = await nodeAnswer(node)
  const texts = 'seen' in answer ? [] : field(field(jsonOf(answer.body), 'spec'), 'podCIDRs')
  const own = (Array.isArray(texts) ? texts : []).flatMap((text) => parseCidr(String(text)) ?? [])
  return [...node.config.clusterCIDR, ...own]
}

/** The bridges of the node that have an address of one of the networks, as those of pods do. */
export async function podBridges(
  { kernel }: Pick<Examined, 'kernel'>,
  networks: readonly Cidr[],
): Promise<readonly Link[]> {
  const found: Link[] = []
  for (const link of await kernel.links.list()) {
    if (link.kind !== 'bridge') continue
    for (const family of ['ipv4', 'ipv6'] as const) {
      const cursor = new AddressCursor(await kernel.routes.dumpAddresses(family, link.index))
      const isOfPods = Array.from({ length: cursor.length }, (_, index) => cursor.address(index)).some(
        (address) => networks.some((network) => cidrContains(network, address)),
      )
      if (isOfPods && !found.includes(link)) found.push(link)
    }
  }
  return found
}
